/** uPlot as it is, with its style sheet beside it (uplot.css). */
import "uplot/dist/uPlot.min.css";
export { default } from "uplot";
