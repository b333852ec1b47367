# DBD::Pg.
use strict;
use warnings;
use DBI;

my ($host, $port, $user, $password, $question) = @ARGV;
my $db;

sub said {
    my ($step, $error) = @_;
    $error =~ s/(["\\])/\\$1/g, $error =~ s/\s+/ /g if defined $error;
    print '{"step": "', $step, '"', (defined $error ? ', "error": "' . substr($error, 0, 400) . '"' : ''), "}\n";
}

sub step {
    my ($name, $run) = @_;
    eval { $run->(); 1 } ? said($name) : said($name, $@);
}

print qq({"step": "version", "version": "$DBD::Pg::VERSION"}\n) if eval { require DBD::Pg; 1 };
step('connect', sub { $db = DBI->connect("dbi:Pg:dbname=hushql;host=$host;port=$port", $user, $password, { RaiseError => 1, PrintError => 0 }) });
exit 0 unless $db;
step('question', sub { ($db->selectrow_array($question))[0] == 200 or die 'not 200 people' });
step('parameter', sub { $db->selectrow_array("$question WHERE age > ?", undef, 30) });
step('tables', sub { grep { /people/ } $db->tables(undef, 'public', '%', 'TABLE') or die 'no table people' });
step('columns', sub { @{ $db->column_info(undef, 'public', 'people', '%')->fetchall_arrayref } == 7 or die 'other columns' });
step('keys', sub { $db->primary_key(undef, 'public', 'people'); my $keys = $db->foreign_key_info(undef, 'public', 'people', undef, undef, undef); $keys && $keys->fetchall_arrayref });
step('statistics', sub { my $found = $db->statistics_info(undef, 'public', 'people', 0, 0); $found && $found->fetchall_arrayref });
step('types', sub { $db->type_info_all });
step('ping', sub { $db->ping or die 'no answer' });
step('refusal', sub { eval { $db->selectall_arrayref('SELECT nothing FROM people') }; $db->state eq '42703' or die $db->state });
step('preview', sub { $db->selectall_arrayref('SELECT * FROM people LIMIT 10') });
$db->disconnect;
