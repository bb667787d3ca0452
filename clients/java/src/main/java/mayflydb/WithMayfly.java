package mayflydb;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.ResourceLock;

/**
 * Gives tests a running Mayfly: as a parameter of type {@link Mayfly} of a test or of a method that prepares it.
 *
 * <p>The server starts with the first test that has the annotation, and ends with the JVM. Before each test it is emptied, and its
 * clock stands at the start. Tests that run in parallel take turns.
 */
@Target({ElementType.TYPE, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(MayflyExtension.class)
@ResourceLock("mayflydb.Mayfly")
public @interface WithMayfly {
    /** The time at which the test's clock stands, such as 2026-01-01T00:00:00Z; without it, the second of the server's start. */
    String start() default "";

    /** What each test finds: paths of .json files with resource documents, from the directory in which the tests run. */
    String[] seed() default {};
}
