package mayflydb;

import java.io.IOException;
import java.time.Instant;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/** The extension behind {@link WithMayfly}. */
public final class MayflyExtension implements BeforeEachCallback, ParameterResolver {
    private static Mayfly shared;

    @Override
    public void beforeEach(ExtensionContext context) throws IOException {
        Mayfly server = shared();
        server.reset();
        server.clock().freeze();
        String start = start(context);
        if (!start.isEmpty()) {
            server.clock().set(Instant.parse(start));
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

    /** The start that the method names, or the class, or one of those around it. */
    private static String start(ExtensionContext context) {
        for (ExtensionContext each = context; each != null; each = each.getParent().orElse(null)) {
            var found = each.getElement().flatMap(element -> AnnotationSupport.findAnnotation(element, WithMayfly.class));
            if (found.isPresent() && !found.get().start().isEmpty()) {
                return found.get().start();
            }
        }
        return "";
    }

    private static synchronized Mayfly shared() throws IOException {
        if (shared == null) {
            shared = Mayfly.start();
        }
        return shared;
    }
}
