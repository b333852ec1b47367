<?php
// PDO.

[, $host, $port, $user, $password, $question] = $argv;

function said(string $step, ?string $error = null): void
{
    $line = json_encode(['step' => $step] + ($error === null ? [] : ['error' => substr($error, 0, 400)]), JSON_INVALID_UTF8_SUBSTITUTE);
    echo str_replace('{"step":', '{"step": ', $line), "\n";
}

function step(string $name, callable $run): void
{
    try {
        $run();
        said($name);
    } catch (Throwable $error) {
        said($name, $error->getMessage());
    }
}

function expect(bool $condition, string $message): void
{
    if (!$condition) {
        throw new Exception($message);
    }
}

echo json_encode(['step' => 'version']) === false ? '' : '{"step": "version", "version": "' . PHP_VERSION . "\"}\n";
$db = null;
step('connect', function () use (&$db, $host, $port, $user, $password) {
    $db = new PDO("pgsql:host=$host;port=$port;dbname=hushql", $user, $password, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
});
if ($db === null) {
    exit(0);
}
step('question', fn () => expect((int) $db->query($question)->fetchColumn() === 200, 'not 200 people'));
foreach (['prepared' => false, 'emulated' => true] as $name => $emulated) {
    step("parameter, $name", function () use ($db, $question, $emulated) {
        $asked = $db->prepare("$question WHERE age > ?", [PDO::ATTR_EMULATE_PREPARES => $emulated]);
        $asked->execute([30]);
        $asked->fetchAll();
    });
}
step('types of columns', function () use ($db, $question) {
    $asked = $db->query($question);
    expect($asked->getColumnMeta(0)['native_type'] === 'int8', 'another type');
});
step('refusal', function () use ($db) {
    try {
        $db->query('SELECT nothing FROM people');
    } catch (PDOException $error) {
        expect($error->getCode() === '42703', $error->getMessage());
    }
});
step('transaction', function () use ($db, $question) {
    $db->beginTransaction();
    $db->query($question)->fetchAll();
    $db->commit();
});
step('preview', fn () => $db->query('SELECT * FROM people LIMIT 10')->fetchAll());
