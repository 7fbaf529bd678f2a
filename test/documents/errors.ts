/*
 * What docs/errors.md adds to the tables of the sources: what to do about each code of the API, and the codes that only
 * commands, the start of a server and deployments use.
 */

const wholeArchive = 'Pack the files again and repeat the upload.'
const keptDamaged = 'Restore the files from a backup, or deploy another release and delete this archive.'
const otherName = 'Rename the file, then pack again.'
const withoutLink = 'Remove the link, or replace it by a copy of the file.'
const wellFormed = 'Fix the client: its multipart form does not follow RFC 7578.'
const rightPath = 'Check the path, and the permissions of the user that svc runs as.'
const later = 'Try again later; `Retry-After` says when.'

/** What to do about each code of the API (lib/api/errors.ts). */
export const cures: Readonly<Record<string, string>> = {
  aborted: 'Repeat the request.',
  signers_unreadable: 'Mend `keys/allowed_signers` in the data directory.',
  signature_unknown_key: 'Sign with a trusted key: `svc keys list`.',
  signature_replayed: 'Sign again. An operator can roll back.',
  signature_other_project: 'Sign it for this project: `svc push --sign-for`.',
  signature_missing: 'Sign it: `--sign-key` of `svc push` or `svc bundle`.',
  signature_expired: 'Sign again, with a key that is valid now.',
  signature_below_threshold: 'Let others sign it, too: repeat `--sign-key`.',
  signature_bad: 'Sign again: `--sign-key` of `svc push` or `svc bundle`.',
  sbom_missing: 'Send one: `svc push --sbom`.',
  key_unreadable: 'Give a public Ed25519 key of ssh-keygen, minisign or `svc keys generate`.',
  key_trusted: 'Nothing: `svc keys list` shows it.',
  key_name_taken: 'Choose another name.',
  absolute_path: 'Pack the files with relative paths.',
  address_not_allowed: 'Send the request from an allowed address, or add yours to `allowed_ips` or to the token.',
  already_finished: 'Nothing: the deployment has its result.',
  already_revoked: 'Create another token.',
  not_promotable: 'Promote a release that has been live in the other project for long enough.',
  promotion_source: 'Change the policy `promoteFrom` of the other project first.',
  only_promotion: 'Deploy to the other project, then promote the release: `svc promote`.',
  outside_window: 'Wait (`svc push --wait`); an operator can give a reason to deploy now (`--override`).',
  target_there: 'Restart the server, which finishes the deployment or undoes it.',
  archive_needed: 'Deploy something else first. `force` gives up the exact undo.',
  backslash_in_name: 'Pack the files with "/" between directories.',
  body_timeout: 'Repeat the request on a faster connection, or with a smaller body.',
  broken_boundary: wellFormed,
  broken_gzip: 'Choose another file: this one is damaged or not compressed with gzip.',
  broken_header: wellFormed,
  broken_package: 'Export the package again.',
  cannot_write_there: rightPath,
  changed_meanwhile: 'Read the current state and try again.',
  changed_since: 'Read the record again, repeat the change on it, and send the new `If-Match`.',
  clashing_projects: 'Change the project on the server or import it under another id.',
  client_scripts_off: 'Set the script in the project, or allow scripts of clients there.',
  code_locked: later,
  code_required: 'Send a code of your authenticator.',
  confirmation_needed: 'Send the header that the message names.',
  control_character_in_name: otherName,
  crc_mismatch: wholeArchive,
  damaged_entry: wholeArchive,
  damaged_index: keptDamaged,
  damaged_pack: keptDamaged,
  damaged_zip: wholeArchive,
  database_unavailable: 'Read the log of the server: it names the cause.',
  denied_path: 'Choose another file. svc shows no files that usually contain secrets.',
  deploy_token_needed: 'Use the deploy token of the project: `svc projects token` prints it.',
  deployment_in_use: 'Wait for the end of the deployment, or cancel it.',
  deployment_running: 'Wait for the end of the deployment, or cancel it.',
  disk_full: 'Free space on the disk of the data directory.',
  duplicate_entry: 'Rename one of the files: on some systems both have the same name.',
  empty_link: withoutLink,
  empty_name: wholeArchive,
  empty_segment: otherName,
  empty_upload: 'Check the path of the file that the client sends.',
  empty_zip: 'Check the output directory of the build: the archive contains no files.',
  encrypted_entry: 'Pack the files without a password.',
  enrollment_invalid: 'Create another token with `svc fleet enroll`.',
  epilogue_too_long: wellFormed,
  extracted_too_large: 'Pack fewer files, or raise `max_extracted_size`.',
  factor_enrolled: 'Remove it first.',
  factor_not_begun: 'Begin again with `POST /api/auth/second-factor`.',
  field_too_long: 'Shorten the field that the message names.',
  file_and_directory: otherName,
  file_missing: 'Check the path of the log source.',
  file_unreachable: 'Check the disk or the network file system.',
  forbidden: 'Use a token with access: [security.md](security.md#who-can-do-what) lists them.',
  forbidden_path: 'Choose another directory.',
  foreign_change: 'Roll back with `--overlay`.',
  foreign_origin: 'Open the panel at the address of the server.',
  glob_too_large: 'Use fewer braces in the pattern.',
  group_unusable: 'Create the group, add the user to it, or change the policy `group`.',
  header_too_long: wellFormed,
  helper_failed: 'Check which programs of that user run on the server: one of them may interfere with the process.',
  history_gone: 'Ask for a proof from a later checkpoint, or export the whole log.',
  home_full: 'Clean the storage, lower `keep_archives`, or raise `max_home_size`.',
  hub_not_encrypted: 'Serve https between the hubs, or use `--allow-http` on a private network.',
  hub_out_of_step: 'Repeat the request after the time in `Retry-After`. If it lasts, set the clocks of the hubs.',
  hub_refused: 'Look at `svc cluster status` of that hub: it was removed, or runs an older svc.',
  hub_unreachable: 'Check the network between the hubs.',
  hub_without_key:
    'Start the hub that the message names, with this version of svc, or remove it with `svc cluster forget`.',
  hubs_changed: 'Look at `svc cluster status`, and run the command again.',
  index_too_new: 'Install the newest svc on the server.',
  inflates_too_large: 'Decompress the file on the server and add the result as a log source.',
  internal_error: 'Report it with the lines of the server log that contain the id.',
  invalid_body: 'Send a JSON object in UTF-8, with each key once and whole characters.',
  invalid_field: 'Correct the field that the message names.',
  invalid_handshake: 'Fix the client: its handshake does not follow RFC 6455.',
  invalid_patch: 'Fix the client: the message says what is wrong. `svc push` sends the whole archive then.',
  invalid_path: 'Encode the path: percent-encoded UTF-8, no "." and "..".',
  invalid_request: 'Fix the client: its request does not follow RFC 9112, or gives a parameter twice.',
  invalid_setting: 'Correct the value as the message says.',
  invalid_tree: 'Fix the client: the message names the line.',
  invisible_character_in_name: otherName,
  last_admin: 'Change it in the settings, or with `svc admin reset-password`.',
  leader_lost: 'Look whether the change was made before you repeat it.',
  link_leaves_target: withoutLink,
  link_loop: withoutLink,
  links_too_long: withoutLink,
  locked: 'Wait (`svc push --wait`), or remove the lock: `svc locks`, `svc unlock`.',
  locked_out: 'Use a valid token. To log in, try again later; `Retry-After` says when.',
  maintenance_changed: 'Look at the file, then remove it with `svc maintenance off --force`.',
  maintenance_file_exists:
    'Remove the file, replace it (`svc maintenance on --force`), or set `maintenanceFile` in the policy.',
  maintenance_on: 'End the maintenance first: `svc maintenance off`.',
  maintenance_page: 'Correct `maintenancePage` in the policy: a file of the target of at most 1 MB.',
  method_not_allowed: 'Use a method of the header `Allow`.',
  misdirected_host: 'Use the address of `SVC_PUBLIC_URL`, or add the name to `allowed_hosts`.',
  multi_disk_zip: 'Pack the files into one zip file.',
  name_taken: 'Choose another name.',
  name_too_long: 'Shorten the name of the file or of its directories.',
  names_too_large: 'Pack fewer files, or shorten their names.',
  newer_package: 'Update svc, then import the package.',
  no_admin_token: 'Run `svc admin reset-password` on the server.',
  no_archive: 'Deploy that version again from its sources.',
  no_boundary: wellFormed,
  no_cluster: 'Use `SVC_HOME` to choose the data directory of a hub.',
  no_content: 'Deploy again.',
  no_file: 'Send the zip as the form field `file`.',
  no_leader:
    'Repeat the request after the time in `Retry-After`. If it is missing, waiting does not help: the message names the problem.',
  no_manifest: 'Choose a deployment that put files in place.',
  no_named_token: 'Sign in with a named token.',
  no_second_copy: 'Start another hub, or push again when one is back.',
  no_pm2_logs: 'The message names the cause. Start the application with pm2, or link it to the project.',
  no_receipt: 'Wait until the deployment has finished and is settled. Deployments of versions before 1.2 have none.',
  no_session: 'Send the session cookie, or leave the request out: a bearer token proves itself.',
  no_space: 'Free space on the disk that the message names.',
  no_such_project: 'Check the project id: `svc list` shows all.',
  no_times: 'Search by text instead.',
  no_webhook: 'Set `webhook_url` first.',
  leader_answer:
    'Look at the hub that leads, and at a proxy between the hubs: one of them is broken, of another version, or not in your hands. After a change, look before you repeat it.',
  node_answer: 'Look at the node and at the log of its agent: it is broken, too old, or not in your hands.',
  node_away: 'Wait until the node is connected again, or look at the machine.',
  node_silent: 'Try again. If it stays so, look at the log of the agent.',
  node_unknown: 'Enroll the machine again.',
  not_a_directory: rightPath,
  not_a_file: 'Choose a regular file.',
  not_a_package: 'Choose a file that `svc export` wrote.',
  not_a_zip: 'Send a zip archive.',
  not_exact: 'Roll back with `--overlay`, or deploy that version again.',
  not_finished: 'Wait for the end of the deployment, or cancel it.',
  not_found: 'Check the address and the id.',
  not_readable: rightPath,
  not_leader: 'Repeat the request after the time in `Retry-After`.',
  not_relayed: 'Ask the server of the node itself.',
  not_placed: 'Place the project on a node: `svc fleet place`. Or push without `rollout`.',
  nothing_to_undo: 'Deploy first.',
  nothing_to_repair: 'Nothing: the target is as deployed.',
  other_owner: 'Ask the owner, or use `takeOver` with a token that is no deploy token.',
  not_sealed: 'Try again in a minute.',
  already_decided: 'Nothing: the record says who decided, and how.',
  not_an_approver: 'Ask somebody with one of the roles of the policy `approval`.',
  own_push: 'Ask somebody else to approve it, or cancel it.',
  superseded: 'Push again.',
  tree_differs: 'Look at the deployment again, and repeat its `treeSha256`; push a signed release again.',
  not_waiting: 'Cancel what has not ended; of what has ended, roll back to restore earlier files.',
  other_project: 'Use the deploy token of this project.',
  out_of_descriptors: 'Raise the limit of open files (`LimitNOFILE` in systemd).',
  outside_target: 'Choose a path in the target of the project.',
  overlapping_entries: wholeArchive,
  partial_archive: 'Roll back with `--exact`.',
  path_leaves_target: 'Pack the files without ".." in their paths.',
  path_taken: 'Choose another target, or delete the other project.',
  deploy_token_may_not: 'Set the policy that the message names, or use the token of an operator.',
  piece_too_long: 'Begin a new upload with the right size.',
  plan_busy: 'Wait a moment and plan again.',
  invalid_sbom: 'Send CycloneDX or SPDX, as JSON.',
  sbom_too_large: 'Leave out what is not needed: at most 10 MiB and 100,000 components.',
  search_busy: 'Wait a moment and search again.',
  assembly_differs: 'Push again: the file changed while the push ran. `svc push` sends the whole archive then.',
  assembly_incomplete: 'Send the missing contents, or the whole archive.',
  base_differs: 'Send the whole archive. `svc push` does so by itself.',
  base_gone: 'Send the whole archive. `svc push` does so by itself.',
  plan_unknown: 'Plan again, and deploy with the new plan.',
  project_is_placed: 'Use `svc rollout revert`, `svc rollback --overlay`, or the page of a node.',
  project_quota: 'Delete deployments of the project, or raise its `maxDiskMb`.',
  proof_required: 'Send the token to `POST /api/auth/prove`, then repeat the request.',
  queue_full: 'Wait, or cancel queued deployments.',
  rate_limited: later,
  receipt_unmade: 'Do what the message says; the receipt is made then.',
  relay_full: 'An agent sends the part again.',
  relay_off: 'Start the agent without `--no-relay`.',
  request_repeated: 'Nothing: agents begin another session by themselves.',
  reserved_name: otherName,
  role_too_low: 'Use a token with the role that the message names.',
  rollout_in_progress: 'Wait for the end of the rollout, or halt it.',
  rollout_state: 'Look at its state with `svc rollout status`. Only the newest rollout of a project can be changed.',
  scope_too_narrow: 'Use a token without a limit to projects.',
  search_too_slow: 'Simplify the expression, or search a smaller range.',
  second_factor_required: 'Sign in to the panel, or use a token without a second factor.',
  server_key: 'Restore `keys/server.ed25519` in the data directory from a backup.',
  session_unknown: 'Nothing: agents begin another session by themselves.',
  settings_target: 'Change `webhook_url`, `webhook_events` and `webhook_secret` instead.',
  shuts_out_yourself: 'Add your own address to the list.',
  shutting_down: 'Try again when the server has started.',
  size_mismatch: wholeArchive,
  stopping: 'Try again when the server has started.',
  target_missing: 'Check that the disk of the target is mounted.',
  target_unusable: 'Read the message, and correct the target or its permissions.',
  terminal_disabled: 'Set `terminal_enabled` to true, and start the server without `--no-terminal`.',
  terminal_unavailable: 'Install node-pty on the server: [troubleshooting.md](troubleshooting.md).',
  token_expired: 'Rotate the token, or use another one.',
  token_revoked: 'Use another token.',
  too_large: 'Send less, or raise the setting that the message names.',
  too_late: 'Look at the result of the deployment.',
  too_many_directories: 'Pack fewer directories.',
  too_many_enrollments: 'Revoke some, or wait until they expire.',
  too_many_entries: 'Pack fewer files.',
  server_full: later,
  too_many_failures: later,
  too_many_uploads: 'Drop an unfinished upload (`DELETE /api/uploads/:id`), or send the archive in one request.',
  too_much_at_once: 'Read the answers, send fewer requests at once, and try again; `Retry-After` says when.',
  too_many_nodes: 'Forget nodes that are no longer used.',
  too_many_parts: 'Send fewer fields.',
  too_many_relays: 'Close pages of nodes, or try again in a moment.',
  too_many_searches: later,
  too_many_sources: 'Remove log sources that nobody reads.',
  too_many_targets: 'Remove a notification target.',
  too_many_tickets: later,
  too_many_tokens: 'Revoke tokens that are not used. They leave the list after 90 days.',
  torn_manifest:
    'Deploy again: this writes a new list of files. For one of another deployment, do what the message says.',
  transaction_too_large: 'Split the change into smaller ones.',
  tree_not_ready: 'Try again in a moment.',
  tree_too_large: 'Leave files out with `ignore`, or deploy fewer files.',
  truncated: 'Repeat the upload: it was cut off.',
  truncated_zip: wholeArchive,
  unauthorized: 'Send `Authorization: Bearer <token>` with a valid token, or log in again.',
  undecodable_name: otherName,
  undo_outdated: 'Look at the new deployment, and undo again if it is intended.',
  unknown_setting: 'Check the key: `GET /api/settings` lists all.',
  unsupported_entry: 'Pack regular files, directories and symbolic links only.',
  unsupported_method: 'Pack with the methods "store" or "deflate".',
  unsupported_type: 'Send the Content-Type that the message names.',
  upload_busy: 'Wait for the other request, or ask for the offset and continue there.',
  upload_differs: 'Begin a new upload: the file changed while it was sent.',
  upload_incomplete: 'Send the missing pieces first.',
  upload_unknown: 'Begin a new upload.',
  upgrade_required: 'Connect with a WebSocket client.',
  variables_key: 'Restore `variables.key` from a backup, or set the secrets again.',
  verify_busy: 'Wait a moment and verify again.',
  websocket_unavailable: 'Run the server with Node.js.',
  write_failed: 'Check the disk of the data directory, then repeat the request.',
  write_unknown: 'Look whether the change was made before you repeat it.',
  written_through_link: withoutLink,
  wrong_code: 'Wait for the next code of your authenticator, or use a recovery code.',
  wrong_csrf: 'Send the header `X-Svc-Csrf` with the value of `GET /api/auth/session`.',
  wrong_digest: 'Check the proxy between the agent and the hub: it changes bodies.',
  wrong_offset: 'Continue at the byte that the header `Upload-Offset` names.',
  wrong_part: 'Only agents see this: the answer is given up.',
  wrong_signature: 'Check the proxy between the agent and the hub, or enroll the machine again.',
  wrong_token: 'Check the token; `svc admin reset-password` sets another one.'
}

/** A code that is not in the description of the API. */
export interface OtherCode {
  where: 'API' | 'command' | 'deployment' | 'server start'
  means: string
  cure: string
}

const row = (where: OtherCode['where'], means: string, cure: string): OtherCode => ({ where, means, cure })
const restoreBackup = 'Restore a backup: [backup.md](backup.md).'
const otherHome = 'Choose another data directory with `SVC_HOME`, or change its permissions.'
const giveToken = 'Give it with `--token`, in the environment, or with `svc login`.'
const tryAgain = 'Run the command again.'

export const otherCodes: Readonly<Record<string, OtherCode>> = {
  address_in_use: row(
    'server start',
    'Another process listens on the address',
    'Choose another `--port` or `--socket`.'
  ),
  agent_identity: row(
    'server start',
    'The identity or the key of an agent cannot be used',
    'Restore the file from a backup, or enroll again.'
  ),
  ambiguous_source: row('command', 'Several log sources have this name', 'Use one of the ids that the message lists.'),
  answer_too_large: row('command', 'The answer of the server is too large', 'Check the address of the server.'),
  archive_differs: row(
    'command',
    'The archive that another hub sent has another SHA-256',
    'Check the disks of the hubs, then push again.'
  ),
  backup_damaged: row('command', 'The backup is damaged', 'Use another backup.'),
  backup_failed: row('command', 'The server could not write the backup', 'Do what the message says.'),
  backup_newer: row('command', 'A newer svc wrote the backup', 'Update svc first.'),
  backup_truncated: row('command', 'The backup ends too early', 'Copy the backup again, or use another one.'),
  bad_answer: row(
    'server start',
    'The address does not answer like a hub',
    'Check the address of the hub, and the proxy in front of it.'
  ),
  bad_key: row(
    'command',
    'A text is not the public key of a server',
    'Give `keys/server.pub`, a public key in PEM, a line `ssh-ed25519 …` or a fingerprint.'
  ),
  bad_line: row(
    'server start',
    'The stream of the hub contains a line that is not one',
    'Check the proxy in front of the hub.'
  ),
  bad_receipt: row(
    'command',
    'A file is not a receipt of a deployment, or its text was changed',
    'Get the receipt again: `svc receipt show`.'
  ),
  bad_stream: row(
    'command',
    'A stream of the server contains a line that is not JSON',
    'Check the proxy in front of the server.'
  ),
  broken_config: row('command', 'A configuration file is malformed', 'Correct the line that the message names.'),
  broken_token: row('command', 'The text is only a part of a named token', 'Copy the whole token.'),
  cluster_exists: row(
    'server start',
    'etcd already has the log of a cluster of this name',
    'Join it, or choose another name.'
  ),
  cluster_key: row('command', 'The key of the cluster cannot be used', 'Copy `cluster.key` from another hub.'),
  cluster_missing: row(
    'server start',
    'etcd does not have the log of the cluster',
    'Begin it with `svc cluster init` on the first hub.'
  ),
  cluster_sealed: row(
    'server start',
    'A value in etcd was sealed with another cluster key',
    'Use the `cluster.key` of the cluster.'
  ),
  config_unreadable: row('command', 'A configuration file cannot be read', rightPath),
  database_damaged: row('server start', 'The database is damaged', restoreBackup),
  database_in_use: row('server start', 'Another program has the database open', 'Close that program.'),
  database_missing: row('server start', 'The redo log is there, the database is not', restoreBackup),
  database_newer: row(
    'server start',
    'A newer svc wrote the database',
    'Install the newer svc: [upgrade.md](upgrade.md).'
  ),
  database_outdated: row('server start', 'The database is older than its redo log', restoreBackup),
  database_unreadable: row('server start', 'The database cannot be read', 'Do what the message says.'),
  directory_in_the_way: row(
    'deployment',
    'The target has a directory where the archive has a file',
    'Remove or rename the directory.'
  ),
  dotenv_unreadable: row(
    'server start',
    '.env.local cannot be read when the server reads its settings again. The earlier token stays',
    'Let the user of the server read the file.'
  ),
  env_needed: row('command', 'The directory has several configurations', 'Choose one with `--env`.'),
  exists: row('command', 'The file exists', 'Give `--force` to replace it.'),
  export_failed: row('command', 'The server could not write the package', 'Do what the message says.'),
  file_changed: row('command', 'A file changed while it was packed', 'Pack again when nothing writes to it.'),
  file_exists: row('command', 'The output file exists', 'Choose another name, or remove the file.'),
  file_in_the_way: row(
    'deployment',
    'The target has a file where the archive has a directory',
    'Remove or rename the file.'
  ),
  file_locked: row('command', 'Another process is changing the configuration file', tryAgain),
  file_outside: row('command', 'A file to pack is outside the directory', 'Change `files` or `outputDir`.'),
  file_unreadable: row('command', 'Permission denied: a file to pack cannot be read', rightPath),
  file_vanished: row('command', 'A file was removed while it was packed', 'Pack again when nothing writes to it.'),
  flags_conflict: row('command', 'Two options exclude each other', 'Give one of them.'),
  home_not_a_directory: row('server start', 'The data directory is a file', otherHome),
  home_not_writable: row('server start', 'Permission denied: the data directory is not writable', otherHome),
  home_on_network: row(
    'server start',
    'The data directory is on a network file system',
    'Choose a local disk with `SVC_HOME`, or set `SVC_NETWORK_HOME=1`.'
  ),
  etcd_refused: row(
    'server start',
    'etcd refused a request of the hub',
    'Check the user and the password of etcd, and what its role may do.'
  ),
  hub_key: row(
    'server start',
    'The key of the hub cannot be used',
    'Restore `keys/hub.ed25519` from a backup, or let the hub join again.'
  ),
  hub_removed: row(
    'server start',
    'The hub was removed from its cluster',
    'Let it join again with an empty data directory.'
  ),
  hub_running: row(
    'command',
    'The hub to forget is running',
    'Take it out of the cluster on its machine with `svc cluster leave`.'
  ),
  hub_unknown: row('command', 'The cluster has no hub of this name', 'Look for it in `svc cluster status`.'),
  hub_name_taken: row('command', 'Another hub of the cluster has this name', 'Choose another `--hub-name`.'),
  image_needed: row(
    'server start',
    'The hub needs the database of another hub and cannot get it',
    'Start another hub of the cluster.'
  ),
  image_too_large: row(
    'server start',
    'The database that another hub sends is larger than any of svc can be',
    'Look at that hub: its machine may be in the hands of somebody else.'
  ),
  has_deployments: row(
    'command',
    '`svc apply --prune` would delete a project with deployments',
    'Name it in the file, or delete it with `svc projects delete`.'
  ),
  in_use: row('server start', 'Another svc process uses the data directory', 'Stop that process first.'),
  invalid_address: row(
    'server start',
    'The address to listen on is malformed',
    'Correct `--host`, `--port` or `--socket`.'
  ),
  invalid_base: row('server start', 'The value of --base is malformed', 'Use a path like `/tools/svc`.'),
  invalid_certificate: row(
    'server start',
    'The certificate or its key cannot be used',
    'Correct `--tls-cert` and `--tls-key`.'
  ),
  invalid_config: row(
    'command',
    'A key of svc.config.json has a wrong value',
    'Correct the key that the message names.'
  ),
  invalid_env: row('command', 'The name of the environment is malformed', 'Use letters, digits, "-" and "_".'),
  invalid_public_url: row(
    'server start',
    'SVC_PUBLIC_URL is malformed',
    'Use an address like `https://deploy.example.org`.'
  ),
  invalid_server_url: row(
    'command',
    'The address of the server is malformed',
    'Use an address like `https://deploy.example.org`.'
  ),
  invalid_switch: row('command', 'A variable is neither true nor false', 'Use `true`, `false`, `1` or `0`.'),
  is_hub: row(
    'command',
    'The data directory is that of a hub of a cluster',
    'Start the hub with `svc serve --store`, or use `svc cluster leave`.'
  ),
  link_leaves_root: row(
    'command',
    'A symbolic link leads outside the directory to pack',
    'Ignore the link, or replace it by a copy.'
  ),
  link_too_long: row('deployment', 'The destination of a symbolic link is too long', withoutLink),
  lock_untrusted: row('server start', 'The lock of the data directory belongs to another user', otherHome),
  name_not_packable: row('command', 'A file name cannot be stored in a zip', otherName),
  needs_https: row('command', 'The server speaks HTTPS', 'Begin the address with `https://`.'),
  needs_terminal: row(
    'command',
    'The command asks a question, and there is no terminal',
    'Give the answer as an option.'
  ),
  negated_file: row('command', 'An entry of "files" begins with "!"', 'Use `ignore` instead.'),
  no_bun: row('server start', 'bun was not found in PATH', 'Install Bun, or choose another `--runtime`.'),
  no_client_config: row(
    'command',
    'There is no svc.config.json',
    'Run `svc init`, or name the project with `--project`.'
  ),
  no_database: row('command', 'The data directory contains no database', 'Check `SVC_HOME`.'),
  no_node: row('server start', 'node was not found in PATH', 'Install Node.js, or choose another `--runtime`.'),
  no_value: row('command', 'The key has no value here', 'Set it: `svc config:set`.'),
  no_output_dir: row('command', 'The output directory does not exist', 'Build first, or correct `--out`.'),
  no_pm2: row('server start', 'pm2 was not found in PATH', 'Run `npm install -g pm2`.'),
  no_project: row('command', 'No project is configured', 'Name it with `--project`, or run `svc init`.'),
  no_server: row('command', 'No server is configured', 'Name it with `--server`, or run `svc init`.'),
  no_sockets: row('server start', 'Windows has no Unix sockets', 'Use `--port`.'),
  no_sources: row('command', 'The project has no log sources', 'Add one with `svc logs sources add`, or in the panel.'),
  no_such_environment: row(
    'command',
    'There is no configuration for this environment',
    'Use an environment that the message lists.'
  ),
  no_such_file: row('command', 'An entry of "files" does not exist', 'Build first, or correct `files`.'),
  no_rollout: row(
    'command',
    'The project has no rollout yet',
    'Push, or name a rollout: `svc rollout list` shows all.'
  ),
  no_other_hub: row(
    'command',
    'The hub would leave although no other hub of the cluster runs',
    'Start another hub, or remove hubs that are gone with `svc cluster forget`.'
  ),
  not_utf8: row('command', 'A file or standard input is not UTF-8 text', 'Save it as UTF-8.'),
  not_writable: row('command', 'A file cannot be written', rightPath),
  nothing_live: row('command', 'Nothing is live in the project to promote from', 'Deploy to it first.'),
  only_copy: row(
    'command',
    'Some archives may be on this hub only',
    'Start the hub and another one and let them copy, or use `--force`.'
  ),
  placed_elsewhere: row(
    'command',
    'A project of the hub is on other nodes, too',
    'Remove it from one or the other with `svc fleet unplace`.'
  ),
  project_not_placed: row(
    'command',
    'An option of a push is about waves, but the project is not placed on nodes',
    'Push without it, or place the project: `svc fleet place`.'
  ),
  no_nodes: row(
    'deployment',
    'All nodes of the project are drained, so no node takes the release',
    'Let one take part again: `svc fleet undrain`.'
  ),
  no_such_source: row(
    'command',
    'No log source has this label, path or id',
    'Check the name: `svc logs sources list` shows those of a project.'
  ),
  no_such_target: row(
    'command',
    'No notification target has this name or id',
    'Check the name: `svc notify list` shows all.'
  ),
  no_such_token: row('command', 'No named token has this name or id', 'Check the name: `svc token list` shows all.'),
  no_token: row('command', 'No token is configured', giveToken),
  not_a_backup: row('command', 'The file is not a backup of svc', 'Choose a file that `svc backup` wrote.'),
  not_a_key: row('command', 'The file is not a public key of a server', 'Use a copy of `keys/server.pub`.'),
  not_an_anchor: row(
    'command',
    'The file is not a checkpoint of this log',
    'Use a checkpoint that was kept elsewhere.'
  ),
  not_empty: row('command', 'The data directory is not empty', 'Give `--force` to set its contents aside.'),
  not_permitted: row('deployment', 'Permission denied: svc cannot write to the target', rightPath),
  not_running: row('command', 'No server uses the data directory', 'Start one with `svc serve`.'),
  not_svc: row('command', 'Another program answers at the address', 'Check the address of the server.'),
  nothing_to_pack: row('command', 'No files are left to pack', 'Check `--out`, `files` and `ignore`.'),
  nothing_to_roll_back_to: row(
    'command',
    'The project has no earlier successful deployment',
    'Deploy an earlier version instead.'
  ),
  other_file_system: row(
    'deployment',
    'A directory of the target is on another file system',
    'Use a target on one file system.'
  ),
  client_only: row('command', 'The client package does not have this', 'Install the full svc package.'),
  bundle_damaged: row(
    'command',
    'A bundle, or a part of it, is not as it was written',
    'Copy it again from where it was made.'
  ),
  bundle_incomplete: row(
    'command',
    'A part of a bundle is missing, doubled, swapped or of another bundle',
    'Put exactly its parts into one directory.'
  ),
  bundle_too_new: row('command', 'A later svc made the bundle', 'Update svc on this machine.'),
  not_a_bundle: row('command', 'The file is not a bundle', 'Check the path. `svc bundle` makes bundles.'),
  plan_refused: row('command', 'The plan says that the push would fail', 'Look at the reasons that the plan lists.'),
  plan_incomplete: row('command', 'The server could not compare the whole target', 'Look at the checks of the plan.'),
  plan_outdated: row('deployment', 'The target has changed since the plan', 'Plan again, and look at what changed.'),
  pm2_failed: row('server start', 'pm2 reported an error', 'Read the output of pm2 in the message.'),
  project_needed: row('command', 'The token is the global deploy token', 'Name the project with `--project`.'),
  proxy_auth: row('command', 'The proxy requires a login', 'Put user name and password into the address of the proxy.'),
  proxy_login: row(
    'command',
    'A proxy in front of the server requires a login',
    'Exclude the API from that login: [proxies.md](proxies.md).'
  ),
  redirected: row('command', 'The server redirects to another address', 'Use the new address as `--server`.'),
  redo_damaged: row('server start', 'The redo log of the database is damaged', restoreBackup),
  redo_newer: row('server start', 'A newer svc wrote the redo log', 'Install the newer svc: [upgrade.md](upgrade.md).'),
  reserved_path: row(
    'deployment',
    'The archive contains the maintenance file, and the project is in maintenance',
    'End the maintenance, or leave the file out of the archive: [maintenance.md](maintenance.md).'
  ),
  restore_unfinished: row(
    'command',
    'The restored files are not yet in place',
    'Do what the message says, then start the server.'
  ),
  revert_failed: row(
    'deployment',
    'The earlier files of a deployment could not be put back',
    'Mount the disk of the target; the next start or deployment tries again.'
  ),
  search_failed: row('command', 'The server ended the search', 'Do what the message says.'),
  secret_setting: row(
    'command',
    'The server shows the value of this setting to nobody now',
    'Set a new value: `svc settings set <key> -`.'
  ),
  server_too_old: row('command', 'The server is older than the client', 'Update the server.'),
  session_key_unreadable: row(
    'server start',
    'The key of browser sessions cannot be read',
    'Do what the message says.'
  ),
  several_releases: row('command', 'The nodes of a project have different releases', 'Name one with `--release`.'),
  still_busy: row(
    'command',
    'Other deployments of the project did not finish in the time of --wait',
    'Push again later, or wait longer.'
  ),
  special_file_in_the_way: row(
    'deployment',
    'The target has a special file where the archive has a file',
    'Remove the special file.'
  ),
  staging_in_the_way: row(
    'deployment',
    'The target contains the staging directory of an earlier run',
    'Remove the directory that the message names.'
  ),
  staging_not_ours: row(
    'deployment',
    'The staging directory belongs to another user',
    'Give the target to the user that svc runs as.'
  ),
  stream_broken: row('command', 'The connection to the server was closed', tryAgain),
  target_changed: row('deployment', 'Another program changed the target during the deployment', 'Deploy again.'),
  target_held: row(
    'deployment',
    'Another deployment into the same directory waits for its checks or its confirmation',
    'Confirm or revert that deployment first.'
  ),
  before_too_large: row(
    'deployment',
    'The files that would be replaced are in no archive, and are too large to be copied',
    'Raise the setting `max_before_size`, or set the policy `exact` to `best`. With `--prune=foreign`, protect large files.'
  ),
  damaged_archive: row(
    'deployment',
    'The kept contents of a file are not those that were in the target',
    'Check the disk of the data directory. Deploy again.'
  ),
  too_many_unowned: row(
    'deployment',
    'The target contains too many entries to remove those that svc did not put there',
    'Push without `--prune=foreign`, and remove the files by hand.'
  ),
  prune_too_much: row(
    'deployment',
    'More than half of the files that svc put there would be removed',
    'Check the directory that is packed. If the removal is intended: `svc push --prune=force`.'
  ),
  target_emptied: row(
    'deployment',
    'A way back found none of the files that svc put into the target',
    'Check that its disk is mounted. `svc undo --force` and `svc rollback --force` bring the files back, on a node its page.'
  ),
  target_drifted: row(
    'deployment',
    'Files were edited on the server, and the policy `drift` is `refuse`',
    'Take the edits into the build, or put the files back.'
  ),
  target_is_a_file: row('deployment', 'The target is a file', 'Remove the file, or change the target.'),
  target_moved: row('deployment', 'The target leads to another directory than before', 'Deploy again.'),
  target_not_guarded: row(
    'deployment',
    'Another user can rename directories above the target',
    'Give these directories to the user that svc runs as.'
  ),
  target_not_writable: row('deployment', 'Permission denied: the target cannot be created', rightPath),
  target_stuck: row(
    'deployment',
    'An earlier extraction into the target has not returned',
    'Check the file system of the target.'
  ),
  key_in_project: row(
    'command',
    'The key that is to sign is in the directory of the project',
    'Move it elsewhere: it would be deployed, or committed.'
  ),
  signing_failed: row(
    'command',
    'ssh-keygen could not sign',
    'Read what it says. Check the agent, or the key in hardware.'
  ),
  no_such_key: row('command', 'No key has this name, fingerprint or id', 'List them: `svc keys list`.'),
  stated_tree_differs: row(
    'deployment',
    'The archive does not contain the files that the client stated',
    'Push again. If it happens again: `svc push --incremental never`.'
  ),
  target_through_link: row(
    'deployment',
    'A symbolic link of another user leads to the target',
    'Use the path that the link leads to.'
  ),
  tree_changed: row('deployment', 'The files differ from those of the plan', 'Plan again.'),
  token_elsewhere: row('command', 'The token belongs to another server', 'Run `svc login` for this server.'),
  token_in_config: row(
    'command',
    'svc.config.json contains a token',
    'Keep tokens in `.env.local` or in the environment.'
  ),
  tokens_differ: row('command', 'The two inputs are different', tryAgain),
  too_many_waves: row(
    'deployment',
    'The policy of rollouts makes more than 1,000 waves of the nodes of the project',
    'Set a larger `then` in the policy `rollout`.'
  ),
  too_many_fields: row('API', 'The form has too many fields (413)', 'Send fewer fields.'),
  too_many_files: row('API', 'The form has too many files (413)', 'Send one file.'),
  unknown_source: row(
    'command',
    'No log source and no project has this name',
    'Run `svc tail` without a name to list all.'
  ),
  unreachable: row('command', 'The server cannot be reached', 'Check the address, the network and the proxy.'),
  unsafe_dotenv: row('command', 'Another user can change .env.local', 'Run the command in the message.'),
  unsafe_home: row('server start', 'Another user can change the data directory', 'Run the command in the message.'),
  usage: row('command', 'The command line is wrong', 'Read `--help` of the command.'),
  whole_needed: row(
    'command',
    '`--incremental require` was given, and only the whole archive could be sent',
    'Push without the option.'
  ),
  wrong_hub: row('server start', 'The hub is not the one of the enrollment token', 'Check the address of the hub.'),
  wrong_prefix: row(
    'command',
    'No svc answers at this path of the address',
    'Give the address the prefix of the server, as in `--base`.'
  ),
  wrong_release: row(
    'server start',
    'The release of the hub does not match its order, or needs a newer svc',
    'If the message names a field, upgrade svc on the node. Else look at the log of the hub. Roll out again.'
  )
}
