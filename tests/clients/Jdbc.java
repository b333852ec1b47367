import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** JDBC against `hushql serve`: what tools ask of its metadata, a query and a parameter. Arguments: URL, password, a query. */
class Jdbc {
    interface Asked {
        ResultSet rows() throws SQLException;
    }

    /** The values of a column. */
    static List<String> column(String name, Asked asked) throws SQLException {
        List<String> found = new ArrayList<>();
        try (ResultSet rows = asked.rows()) {
            while (rows.next()) {
                found.add(rows.getString(name));
            }
        } catch (SQLException error) {
            throw new SQLException(name + ": " + error.getMessage(), error);
        }
        return found;
    }

    static void same(Object found, Object expected) {
        if (!found.equals(expected)) {
            throw new AssertionError(found + " instead of " + expected);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        String count = arguments[2];
        try (Connection lab = DriverManager.getConnection(arguments[0], "lab", arguments[1])) {
            DatabaseMetaData meta = lab.getMetaData();
            List<String> none = List.of();
            same(column("TABLE_CAT", () -> meta.getCatalogs()), List.of("hushql"));
            same(column("TABLE_SCHEM", () -> meta.getSchemas(null, "pub%")), List.of("public"));
            String[] kinds = {"TABLE", "VIEW"};
            same(column("TABLE_NAME", () -> meta.getTables(null, "public", "%", kinds)), List.of("people"));
            same(column("COLUMN_NAME", () -> meta.getColumns(null, null, "people", null)), List.of("id", "age", "city"));
            same(column("TYPE_NAME", () -> meta.getColumns(null, "public", "people", "%")), List.of("int8", "int8", "text"));
            same(column("COLUMN_NAME", () -> meta.getPrimaryKeys(null, "public", "people")), none);
            same(column("FK_NAME", () -> meta.getImportedKeys(null, "public", "people")), none);
            same(column("FK_NAME", () -> meta.getExportedKeys(null, "public", "people")), none);
            same(column("FK_NAME", () -> meta.getCrossReference(null, "public", "people", null, "public", "people")), none);
            same(column("INDEX_NAME", () -> meta.getIndexInfo(null, "public", "people", false, false)), none);
            same(column("PROCEDURE_NAME", () -> meta.getProcedures(null, null, "%")), none);
            // The functions that read and write the types, as in PostgreSQL, and no others.
            same(column("FUNCTION_NAME", () -> meta.getFunctions(null, null, "int8%")), List.of("int8in", "int8out", "int8recv", "int8send"));
            column("COLUMN_NAME", () -> meta.getFunctionColumns(null, null, "int8%", "%"));
            same(column("TYPE_NAME", () -> meta.getUDTs(null, "public", "%", null)), none);
            same(column("COLUMN_NAME", () -> meta.getBestRowIdentifier(null, "public", "people", 1, true)), none);
            column("GRANTEE", () -> meta.getTablePrivileges(null, "public", "people"));
            column("GRANTEE", () -> meta.getColumnPrivileges(null, "public", "people", "%"));
            same(column("TYPE_NAME", () -> meta.getTypeInfo()).contains("int8"), true);
            meta.getSQLKeywords();
            same(meta.getMaxColumnNameLength(), 63);
            same(meta.getMaxColumnsInIndex(), 32);
            try (Statement statement = lab.createStatement(); ResultSet rows = statement.executeQuery(count)) {
                rows.next();
                same(rows.getLong("n"), 4L);
            }
            try (PreparedStatement statement = lab.prepareStatement(count + " WHERE age > ?")) {
                ResultSetMetaData columns = statement.getMetaData();
                same(columns.getColumnName(1), "n");
                same(columns.getColumnTypeName(1), "int8");
                ParameterMetaData parameters = statement.getParameterMetaData();
                same(parameters.getParameterTypeName(1), "int8");
                statement.setInt(1, 40);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    same(rows.getLong(1), 3L);
                }
            }
            try (Statement statement = lab.createStatement()) {
                statement.executeQuery("SELECT * FROM people");
                throw new AssertionError("rows");
            } catch (SQLException refused) {
                same(refused.getSQLState(), "HQ001");
            }
            lab.setAutoCommit(false);
            same(lab.getTransactionIsolation(), Connection.TRANSACTION_READ_COMMITTED);
            same(lab.getSchema(), "public");
            lab.commit();
            lab.setSchema("public");
            lab.rollback();
            same(lab.isValid(5), true);
        }
    }
}
