package mayflydb;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Optional;
import java.util.function.Function;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/** The extension behind {@link WithMayfly}. */
public final class MayflyExtension implements BeforeEachCallback, ParameterResolver {
    private static final String[] NOTHING = {};

    private static Mayfly shared;

    @Override
    public void beforeEach(ExtensionContext context) throws IOException {
        Mayfly server = shared();
        server.reset();
        server.clock().freeze();
        Optional<String> start = named(context, with -> with.start().isEmpty() ? null : with.start());
        if (start.isPresent()) {
            server.clock().set(Instant.parse(start.get()));
        }
        for (String file : named(context, with -> with.seed().length == 0 ? null : with.seed()).orElse(NOTHING)) {
            server.seed(Path.of(file));
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Mayfly.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        try {
            return shared();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** What the method names, or the class, or one of those around it. */
    private static <T> Optional<T> named(ExtensionContext context, Function<WithMayfly, T> of) {
        for (ExtensionContext each = context; each != null; each = each.getParent().orElse(null)) {
            var found = each.getElement().flatMap(element -> AnnotationSupport.findAnnotation(element, WithMayfly.class)).map(of);
            if (found.isPresent()) {
                return found;
            }
        }
        return Optional.empty();
    }

    private static synchronized Mayfly shared() throws IOException {
        if (shared == null) {
            shared = Mayfly.start();
        }
        return shared;
    }
}
