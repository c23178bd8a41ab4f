<?php
// Receives webhooks: verifies each one, and handles each event once.
//
// Needs PHP 8.0 or newer and no package. Settings: WEBHOOK_SECRET (whsec_...), STATE_DIR (folder of
// the identifiers of handled events). Any web server for PHP runs it; to try it on this machine:
// php -S 127.0.0.1:9000 receive-webhooks.php

declare(strict_types=1);

const TOLERANCE = 300; // seconds between the clocks of both sides, and for the way
const LONGEST_BODY = 64 * 1024;

/** Checks the signature over the bytes of the body as they came, before anything reads them. */
function is_genuine(string $secret, string $body): bool
{
    $id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
    $timestamp = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    // An old webhook may be one that was overheard and is sent again.
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > TOLERANCE) {
        return false;
    }
    $hmac = hash_hmac('sha256', "$id.$timestamp.$body", $secret, true);
    $expected = 'v1,' . base64_encode($hmac);
    // There are two while the secret is being rotated.
    foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $signature) {
        if (hash_equals($expected, $signature)) {
            return true;
        }
    }
    return false;
}

/**
 * An event may arrive again, and events may arrive in any order. Your product stores the identifier
 * in the transaction that does the work, in a unique column.
 */
function handle_once(string $id, string $body): void
{
    $handled = (getenv('STATE_DIR') ?: '.') . '/' . hash('sha256', $id);
    if (!file_exists($handled)) {
        handle(json_decode($body, true, flags: JSON_THROW_ON_ERROR));
        touch($handled);
    }
}

/**
 * Takes little time: the service waits 15 seconds. Queue what takes longer. Ignore types that you
 * do not know: there may be more of them one day.
 */
function handle(array $event): void
{
    $line = $event['type'];
    if (str_starts_with($line, 'order.')) {
        // An erased order has no status.
        $line = rtrim("$line {$event['data']['order_id']} " . ($event['data']['order_status'] ?? ''));
    }
    file_put_contents('php://stdout', "$line\n");
}

function receive(): int
{
    $secret = preg_replace('/^whsec_/', '', getenv('WEBHOOK_SECRET') ?: '');
    if ($secret === '') {
        error_log('set WEBHOOK_SECRET');
        return 500;
    }
    $body = file_get_contents('php://input', length: LONGEST_BODY + 1);
    if (strlen($body) > LONGEST_BODY) {
        return 413;
    }
    if (!is_genuine(base64_decode($secret), $body)) {
        return 401;
    }
    handle_once($_SERVER['HTTP_WEBHOOK_ID'], $body);
    return 204; // only now: the service repeats a webhook that gets no 2xx
}

http_response_code(receive());
