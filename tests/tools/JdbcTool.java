// PgJDBC, as DBeaver, DataGrip, Metabase and Tableau use it.

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Properties;

public class JdbcTool {
    interface Run {
        void run() throws Exception;
    }

    static void said(String step, String error) {
        String more = error == null ? "" : ", \"error\": \"" + error.replaceAll("[\"\\\\]", "'").replaceAll("\\s+", " ") + "\"";
        System.out.println("{\"step\": \"" + step + "\"" + more + "}");
    }

    static void step(String name, Run run) {
        try {
            run.run();
            said(name, null);
        } catch (Exception error) {
            said(name, String.valueOf(error.getMessage()));
        }
    }

    static void expect(boolean condition, String message) throws SQLException {
        if (!condition) {
            throw new SQLException(message);
        }
    }

    static int rows(ResultSet set) throws SQLException {
        int n = 0;
        while (set.next()) {
            n++;
        }
        return n;
    }

    public static void main(String[] words) throws Exception {
        Properties own = new Properties();
        own.setProperty("user", words[2]);
        own.setProperty("password", words[3]);
        String question = words[4];
        Connection db = DriverManager.getConnection("jdbc:postgresql://" + words[0] + ":" + words[1] + "/hushql", own);
        DatabaseMetaData data = db.getMetaData();
        System.out.println("{\"step\": \"version\", \"version\": \"" + data.getDriverVersion() + "\"}");
        said("connect", null);
        step("catalogs", () -> expect(rows(data.getCatalogs()) > 0, "no database"));
        step("schemas", () -> expect(rows(data.getSchemas()) > 0, "no schema"));
        step("tables", () -> expect(rows(data.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"})) == 2, "other tables"));
        step("columns", () -> expect(rows(data.getColumns(null, "public", "people", "%")) == 7, "other columns"));
        step("keys", () -> {
            rows(data.getPrimaryKeys(null, "public", "people"));
            rows(data.getImportedKeys(null, "public", "people"));
            rows(data.getExportedKeys(null, "public", "people"));
            rows(data.getBestRowIdentifier(null, "public", "people", DatabaseMetaData.bestRowSession, true));
        });
        step("indexes", () -> rows(data.getIndexInfo(null, "public", "people", false, true)));
        step("privileges", () -> {
            rows(data.getTablePrivileges(null, "public", "people"));
            rows(data.getColumnPrivileges(null, "public", "people", "%"));
        });
        step("types", () -> rows(data.getTypeInfo()));
        step("functions", () -> {
            rows(data.getFunctions(null, "public", "%"));
            rows(data.getProcedures(null, "public", "%"));
        });
        step("words", () -> {
            data.getSQLKeywords();
            rows(data.getClientInfoProperties());
        });
        step("question", () -> {
            try (ResultSet set = db.createStatement().executeQuery(question)) {
                expect(set.next() && set.getLong("n") == 200, "not 200 people");
                expect("people".equals(set.getMetaData().getTableName(1)) || set.getMetaData().getTableName(1).isEmpty(), "another table");
            }
        });
        step("parameter", () -> {
            var asked = db.prepareStatement(question + " WHERE age > ? AND city = ?");
            asked.getParameterMetaData().getParameterType(1);
            for (int n = 0; n < 7; n++) {
                asked.setLong(1, 30);
                asked.setString(2, "Rome");
                rows(asked.executeQuery());
            }
        });
        step("cursor", () -> {
            db.setAutoCommit(false);
            var asked = db.createStatement();
            asked.setFetchSize(1);
            rows(asked.executeQuery("SELECT city, COUNT(*) AS n FROM people GROUP BY city"));
            db.commit();
            db.setAutoCommit(true);
        });
        step("most seconds", () -> {
            var asked = db.createStatement();
            asked.setQueryTimeout(120);
            rows(asked.executeQuery(question));
        });
        step("read only", () -> {
            db.setReadOnly(true);
            expect(db.isValid(60), "not valid");
        });
        step("preview", () -> rows(db.createStatement().executeQuery("SELECT * FROM people LIMIT 10")));
        db.close();
    }
}
