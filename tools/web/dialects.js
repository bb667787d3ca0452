/** The dialects of Cosmos DB's SQL and of YQL, with the words that the server knows (words.json, written by words.py). */
import { SQLDialect } from "@codemirror/lang-sql";

import words from "./words.json";

export const CosmosSQL = SQLDialect.define({ ...words.sql, doubleQuotedStrings: true, slashComments: false, specialVar: "@" });

export const YQL = SQLDialect.define({
  ...words.yql, backslashEscapes: true, doubleQuotedStrings: true, identifierQuotes: "`", specialVar: "$",
});
