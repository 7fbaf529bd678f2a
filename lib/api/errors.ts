import type { RefusalKind } from '../base/errors.js'

/** An error code of the API. `kind` decides the HTTP status (http/core/reply.ts); a bug has status 500. */
export interface ErrorCode {
  kind: RefusalKind | 'bug'
  means: string
}

/** Every error code of the API. Codes are stable: they may be added, but not renamed. */
export const errorCodes: Record<string, ErrorCode> = {
  aborted: { kind: 'invalid', means: 'The connection was closed before the end of the body' },
  absolute_path: { kind: 'invalid', means: 'A name in the archive is an absolute path' },
  address_not_allowed: {
    kind: 'forbidden',
    means: 'The client address is not in the setting allowed_ips, or not one of those of the token'
  },
  already_decided: { kind: 'conflict', means: 'The approval was decided before' },
  already_finished: { kind: 'conflict', means: 'The deployment has already finished' },
  already_revoked: { kind: 'conflict', means: 'The token was revoked before' },
  archive_needed: {
    kind: 'conflict',
    means: 'The archive is needed: its files are in the target, nodes get it, or an exact undo needs it'
  },
  assembly_differs: { kind: 'invalid', means: 'A file that was sent is not the one that the list of files names' },
  assembly_incomplete: { kind: 'invalid', means: 'Contents are neither in the upload nor in the earlier release' },
  backslash_in_name: { kind: 'invalid', means: 'A name in the archive contains a backslash' },
  base_differs: { kind: 'conflict', means: 'The changes belong to another release than the one that they name' },
  base_gone: { kind: 'conflict', means: 'The earlier release is not kept any more' },
  body_timeout: { kind: 'timed_out', means: 'The body did not arrive in time' },
  broken_boundary: { kind: 'invalid', means: 'A boundary of the form is malformed' },
  broken_gzip: { kind: 'invalid', means: 'The compressed file or body is incomplete or malformed' },
  broken_header: { kind: 'invalid', means: 'A header of a part of the form is malformed' },
  broken_package: { kind: 'invalid', means: 'A file of the import package is malformed' },
  cannot_write_there: { kind: 'unavailable', means: 'The server cannot write the file that "to" names' },
  changed_meanwhile: { kind: 'conflict', means: 'The file or record changed during the request' },
  changed_since: { kind: 'precondition', means: 'The record has changed: it is not in the state that If-Match names' },
  clashing_projects: {
    kind: 'conflict',
    means: 'A project of the package has the same target or token as another project'
  },
  client_scripts_off: { kind: 'forbidden', means: 'The project does not accept scripts from clients' },
  code_locked: {
    kind: 'too_many',
    means: 'Too many wrong codes of a second factor were given for this token. Retry-After contains the seconds to wait'
  },
  code_required: { kind: 'unauthorized', means: 'The token has a second factor, and no code was sent' },
  confirmation_needed: { kind: 'invalid', means: 'The request needs a confirmation header' },
  control_character_in_name: { kind: 'invalid', means: 'A name in the archive contains a control character' },
  crc_mismatch: { kind: 'invalid', means: 'The checksum of an entry of the archive is wrong' },
  damaged_entry: { kind: 'invalid', means: 'An entry of the archive cannot be decompressed' },
  damaged_index: { kind: 'invalid', means: 'The index of a kept archive is damaged, or is not that of its packs' },
  damaged_pack: { kind: 'invalid', means: 'A file that a kept archive shares with others is damaged or missing' },
  damaged_zip: { kind: 'invalid', means: 'The structure of the archive is malformed' },
  database_unavailable: { kind: 'unavailable', means: 'The database cannot be read or written' },
  denied_path: { kind: 'forbidden', means: 'The file may contain secrets, so svc does not show it' },
  deploy_token_needed: { kind: 'forbidden', means: 'An upload needs a deploy token, or the named token of a deployer' },
  deployment_in_use: { kind: 'conflict', means: 'The deployment is queued or running' },
  deployment_running: { kind: 'conflict', means: 'A deployment of the project is queued or running' },
  disk_full: { kind: 'unavailable', means: 'No space left on device' },
  duplicate_entry: { kind: 'invalid', means: 'Two entries of the archive have the same name on some file systems' },
  empty_link: { kind: 'invalid', means: 'A symbolic link in the archive has no destination' },
  empty_name: { kind: 'invalid', means: 'An entry of the archive has no name' },
  empty_segment: { kind: 'invalid', means: 'A name in the archive has an empty segment' },
  empty_upload: { kind: 'invalid', means: 'The uploaded file is empty' },
  empty_zip: { kind: 'invalid', means: 'The archive has no entries' },
  encrypted_entry: { kind: 'invalid', means: 'An entry of the archive is encrypted' },
  enrollment_invalid: { kind: 'forbidden', means: 'The enrollment token was used, was revoked, or has expired' },
  epilogue_too_long: { kind: 'too_large', means: 'Too many bytes follow the last boundary of the form' },
  extracted_too_large: {
    kind: 'too_large',
    means: 'The uncompressed size of the archive exceeds the setting max_extracted_size'
  },
  factor_enrolled: { kind: 'conflict', means: 'The token already has a second factor' },
  factor_not_begun: { kind: 'conflict', means: 'No second factor was begun for the token' },
  field_too_long: { kind: 'too_large', means: 'A field of the form is too long' },
  file_and_directory: { kind: 'invalid', means: 'A name in the archive is used for a file and for a directory' },
  file_missing: { kind: 'not_found', means: 'The log file does not exist' },
  file_unreachable: { kind: 'unavailable', means: 'The file cannot be read: the disk or the network reports an error' },
  forbidden: { kind: 'forbidden', means: 'The token is valid, but has no access to this resource' },
  forbidden_path: { kind: 'forbidden', means: 'The directory cannot be listed' },
  foreign_change: {
    kind: 'conflict',
    means: 'An import changed the target without a deployment, so an earlier state cannot be restored exactly'
  },
  foreign_origin: { kind: 'forbidden', means: 'The request comes from a page of another origin' },
  glob_too_large: { kind: 'invalid', means: 'The braces of a pattern expand to too many patterns' },
  group_unusable: { kind: 'conflict', means: 'The group of the policy does not exist, or cannot be given to files' },
  header_too_long: { kind: 'too_large', means: 'A header of a part of the form is too long' },
  helper_failed: {
    kind: 'unavailable',
    means: "The process that works with the rights of the project's user does not work as it should"
  },
  history_gone: {
    kind: 'conflict',
    means: 'The audit log is too long: the hashes of entries that old were removed'
  },
  home_full: { kind: 'too_large', means: 'The data directory has reached the setting max_home_size' },
  hub_not_encrypted: { kind: 'unavailable', means: 'The connection to another hub would not be encrypted' },
  hub_out_of_step: { kind: 'unavailable', means: 'A hub cannot check the request of another hub now' },
  hub_refused: { kind: 'forbidden', means: 'No hub of the cluster has signed the request that a hub passed on' },
  hub_unreachable: { kind: 'unavailable', means: 'Another hub of the cluster cannot be reached' },
  hub_without_key: { kind: 'conflict', means: 'A hub did not take the new key of the cluster' },
  hubs_changed: { kind: 'conflict', means: 'The hubs of the cluster have changed since the caller saw them' },
  index_too_new: { kind: 'invalid', means: 'A newer svc has written the index of a kept archive' },
  inflates_too_large: { kind: 'too_large', means: 'The compressed log file is too large when decompressed' },
  internal_error: {
    kind: 'bug',
    means: 'Internal error. The server log contains the cause under the id in the message'
  },
  invalid_body: {
    kind: 'invalid',
    means: 'The body is not valid JSON, not a JSON object, or has a key twice or half of a character'
  },
  invalid_field: { kind: 'invalid', means: 'A field or a parameter is missing or has an invalid value' },
  invalid_handshake: { kind: 'invalid', means: 'The WebSocket handshake is malformed' },
  invalid_patch: { kind: 'invalid', means: 'The differences within files are not valid' },
  invalid_path: { kind: 'invalid', means: 'The path is malformed' },
  invalid_request: { kind: 'invalid', means: 'The request is malformed, or has a parameter of its query twice' },
  invalid_setting: { kind: 'invalid', means: 'A setting has an invalid value' },
  invalid_sbom: { kind: 'invalid', means: 'The list of components is neither CycloneDX nor SPDX in JSON' },
  invalid_tree: { kind: 'invalid', means: 'A line of the tree is malformed, unsorted or given twice' },
  invisible_character_in_name: { kind: 'invalid', means: 'A name in the archive contains an invisible character' },
  key_name_taken: { kind: 'conflict', means: 'Another key has this name, or one that looks like it' },
  key_trusted: { kind: 'conflict', means: 'The key is trusted already' },
  key_unreadable: { kind: 'invalid', means: 'The public key cannot be read, or is of a kind that signs no releases' },
  last_admin: { kind: 'conflict', means: 'The admin token cannot be revoked or rotated' },
  leader_answer: {
    kind: 'bad_gateway',
    means:
      'The leader of the cluster sent an answer that this hub does not pass on: a change may or may not have been made'
  },
  leader_lost: {
    kind: 'unavailable',
    means: 'The leader of the cluster was lost before it answered: the change may or may not have been made'
  },
  link_leaves_target: { kind: 'invalid', means: 'A symbolic link in the archive leads outside the target' },
  link_loop: { kind: 'invalid', means: 'Symbolic links in the archive form a loop' },
  links_too_long: { kind: 'invalid', means: 'The destinations of symbolic links in the archive are too long' },
  locked: { kind: 'conflict', means: 'The project, or the whole server, is locked' },
  locked_out: {
    kind: 'too_many',
    means:
      'Too many failed attempts from this address. Logins are refused, elsewhere wrong tokens. Retry-After contains the seconds to wait'
  },
  maintenance_changed: { kind: 'conflict', means: 'The maintenance file in the target was changed' },
  maintenance_file_exists: { kind: 'conflict', means: 'The target contains the maintenance file already' },
  maintenance_on: { kind: 'conflict', means: 'The project is in maintenance' },
  maintenance_page: { kind: 'conflict', means: 'The page for a maintenance is missing or too large' },
  method_not_allowed: {
    kind: 'method',
    means: 'The path does not support this method. The header Allow lists the supported methods'
  },
  misdirected_host: { kind: 'misdirected', means: 'The server does not accept requests for this host name' },
  multi_disk_zip: { kind: 'invalid', means: 'The archive is split into several files' },
  name_taken: { kind: 'conflict', means: 'The name is in use' },
  name_too_long: { kind: 'invalid', means: 'A name in the archive is too long' },
  names_too_large: { kind: 'too_large', means: 'The names in the archive are too long in total' },
  newer_package: { kind: 'conflict', means: 'A newer svc wrote the package' },
  no_admin_token: { kind: 'unavailable', means: 'The server has no admin token yet' },
  no_archive: { kind: 'conflict', means: 'The archive of the deployment was removed' },
  no_boundary: { kind: 'invalid', means: 'The Content-Type of the form has no boundary' },
  no_cluster: { kind: 'not_found', means: 'The server is not a hub of a cluster' },
  no_content: { kind: 'conflict', means: 'The archive that contains a file to repair was removed' },
  no_file: { kind: 'invalid', means: 'The form has no part "file"' },
  no_leader: { kind: 'unavailable', means: 'The cluster has no leader at the moment' },
  no_manifest: { kind: 'not_found', means: 'The deployment has no list of files, because it put none in place' },
  no_named_token: { kind: 'conflict', means: 'The admin token has no second factor' },
  no_receipt: { kind: 'not_found', means: 'The deployment has no receipt, or not yet' },
  no_second_copy: { kind: 'unavailable', means: 'No second hub can keep the archive' },
  no_pm2_logs: { kind: 'conflict', means: 'PM2 names no log files: no application is linked, or PM2 does not run it' },
  no_session: { kind: 'conflict', means: 'The request has no browser session' },
  no_space: { kind: 'unavailable', means: 'No space left on device for temporary files' },
  no_such_project: { kind: 'not_found', means: 'There is no project with this id' },
  no_times: { kind: 'invalid', means: 'The lines of the log have no times' },
  no_webhook: { kind: 'invalid', means: 'The setting webhook_url is empty' },
  node_answer: { kind: 'bad_gateway', means: 'The node sent an answer that the hub does not pass on' },
  node_away: { kind: 'unavailable', means: 'The node is not connected' },
  node_silent: { kind: 'unavailable', means: 'The node did not answer in time' },
  node_unknown: { kind: 'unauthorized', means: 'The node that signed the request was forgotten' },
  not_a_directory: { kind: 'invalid', means: 'The path is not a directory' },
  not_a_file: { kind: 'invalid', means: 'The path is not a regular file' },
  not_a_package: { kind: 'invalid', means: 'The file is not an export package' },
  not_a_zip: { kind: 'invalid', means: 'The file is not a zip archive' },
  not_an_approver: { kind: 'forbidden', means: 'The policy of the project names other roles for approvals' },
  not_exact: { kind: 'conflict', means: 'The earlier state cannot be restored exactly: contents or records are gone' },
  not_finished: { kind: 'conflict', means: 'The deployment is queued or running' },
  not_found: { kind: 'not_found', means: 'Not found' },
  not_leader: { kind: 'unavailable', means: 'This hub of the cluster does not lead any more' },
  not_placed: { kind: 'conflict', means: 'The project is on no node' },
  not_promotable: { kind: 'conflict', means: 'The deployment cannot be promoted to the project' },
  not_readable: { kind: 'forbidden', means: 'Permission denied: svc cannot read it' },
  not_relayed: { kind: 'not_found', means: 'A node does not tell this through its hub' },
  nothing_to_repair: { kind: 'conflict', means: 'Every file is as deployed, or nothing was deployed' },
  nothing_to_undo: { kind: 'conflict', means: 'No deployment has changed the target of the project' },
  promotion_source: {
    kind: 'conflict',
    means: 'The project cannot be deleted: another project takes releases of it only'
  },
  only_promotion: { kind: 'conflict', means: 'The project takes releases of another project only' },
  other_owner: { kind: 'forbidden', means: 'The lock or the maintenance belongs to somebody else' },
  not_sealed: { kind: 'conflict', means: 'The entry of the audit log can still change' },
  not_waiting: {
    kind: 'conflict',
    means: 'The deployment does not wait for an approval or a confirmation, or its earlier files are not kept any more'
  },
  other_project: { kind: 'forbidden', means: 'The deploy token belongs to another project' },
  deploy_token_may_not: {
    kind: 'forbidden',
    means: 'The policy of the project does not allow that to its deploy token, or to a deployer'
  },
  out_of_descriptors: { kind: 'unavailable', means: 'The server has no file descriptors left' },
  own_push: { kind: 'forbidden', means: 'Somebody else must approve the deployment' },
  outside_target: { kind: 'forbidden', means: 'The path is outside the target of the project' },
  outside_window: { kind: 'conflict', means: 'The project is outside of the windows in which deployments begin' },
  overlapping_entries: { kind: 'invalid', means: 'Two entries of the archive overlap' },
  partial_archive: {
    kind: 'conflict',
    means: 'The deployment was an exact rollback, so its archive contains only what differed'
  },
  path_leaves_target: { kind: 'invalid', means: 'A name in the archive leads outside the target' },
  path_taken: { kind: 'conflict', means: 'Another project has this target' },
  piece_too_long: { kind: 'invalid', means: 'The upload would become longer than was announced' },
  plan_busy: { kind: 'conflict', means: 'Too many plans of the project are waiting' },
  plan_unknown: { kind: 'conflict', means: 'The plan has expired, or the server was restarted since' },
  project_is_placed: {
    kind: 'conflict',
    means: 'The files of the project are on nodes of the fleet, not on the server'
  },
  project_quota: { kind: 'too_large', means: 'The project has reached its limit maxDiskMb' },
  proof_required: { kind: 'forbidden', means: 'The user of the session gave the token too long ago' },
  queue_full: { kind: 'too_many', means: 'Too many deployments of the project are queued' },
  rate_limited: { kind: 'too_many', means: 'Too many requests. Retry-After contains the seconds to wait' },
  receipt_unmade: { kind: 'unavailable', means: 'The receipt of the deployment could not be made yet' },
  relay_full: { kind: 'too_many', means: 'The client of a relayed request reads slowly. For agents' },
  relay_off: { kind: 'forbidden', means: 'The agent of the node runs with --no-relay' },
  request_repeated: { kind: 'unauthorized', means: 'The number of the signed request was used before' },
  reserved_name: { kind: 'invalid', means: 'A name in the archive is reserved on some systems' },
  role_too_low: { kind: 'forbidden', means: 'The role of the token does not permit the request' },
  rollout_in_progress: { kind: 'conflict', means: 'A rollout of the project is in progress' },
  rollout_state: { kind: 'conflict', means: 'The rollout is not in a state in which this is possible' },
  sbom_missing: { kind: 'forbidden', means: 'The project takes only releases with a list of their components' },
  scope_too_narrow: {
    kind: 'forbidden',
    means: 'The request concerns the whole server, and the token is limited to projects'
  },
  search_too_slow: { kind: 'timed_out', means: 'The search took too long' },
  second_factor_required: {
    kind: 'forbidden',
    means: 'The token has a second factor, so it only opens sessions of the panel'
  },
  sbom_too_large: { kind: 'too_large', means: 'The list of components is too large' },
  search_busy: { kind: 'conflict', means: 'Too many searches for components are waiting' },
  server_full: { kind: 'unavailable', means: 'The server holds as much data of requests as it may' },
  server_key: { kind: 'unavailable', means: 'The key that signs checkpoints of the audit log cannot be used' },
  session_unknown: { kind: 'unauthorized', means: 'The session of the agent is unknown' },
  settings_target: { kind: 'conflict', means: 'This notification target can only be changed in the settings' },
  shuts_out_yourself: { kind: 'invalid', means: 'The new value would block the client that sets it' },
  shutting_down: { kind: 'unavailable', means: 'The server is shutting down' },
  signature_bad: {
    kind: 'forbidden',
    means: 'A signature or its statement cannot be used, or does not belong to what was sent'
  },
  signature_below_threshold: {
    kind: 'forbidden',
    means: 'Fewer keys have signed the release than the project demands'
  },
  signature_expired: { kind: 'forbidden', means: 'The statement, or the key that signed it, has expired' },
  signature_missing: { kind: 'forbidden', means: 'The project takes only signed releases, and this one is not signed' },
  signature_other_project: { kind: 'forbidden', means: 'The release was signed for another project' },
  signature_replayed: { kind: 'forbidden', means: 'The release was signed before the one that is live' },
  signature_unknown_key: { kind: 'forbidden', means: 'No key that the project trusts has signed the release' },
  signers_unreadable: { kind: 'unavailable', means: 'The file of the allowed signers of the server cannot be read' },
  size_mismatch: { kind: 'invalid', means: 'The size of an entry of the archive is wrong' },
  stopping: { kind: 'unavailable', means: 'The server is shutting down' },
  target_missing: { kind: 'unavailable', means: 'The target does not exist, or leads elsewhere' },
  target_there: { kind: 'conflict', means: 'The target is there: what is half changed in it can be finished' },
  target_unusable: { kind: 'conflict', means: 'The target of the project cannot be read' },
  terminal_disabled: { kind: 'forbidden', means: 'The terminal is disabled' },
  terminal_unavailable: {
    kind: 'unsupported',
    means: 'The terminal needs node-pty, which is not installed or cannot be loaded'
  },
  token_expired: { kind: 'unauthorized', means: 'The token has expired' },
  token_revoked: { kind: 'unauthorized', means: 'The token was revoked' },
  too_large: { kind: 'too_large', means: 'The body is too large' },
  too_late: { kind: 'conflict', means: 'The deployment has been confirmed or reverted already' },
  too_many_directories: { kind: 'invalid', means: 'The archive has too many directories' },
  too_many_enrollments: { kind: 'conflict', means: 'There are already 1000 enrollment tokens' },
  too_many_entries: { kind: 'too_large', means: 'The archive has too many entries' },
  too_many_failures: {
    kind: 'too_many',
    means: 'Too many failed attempts wait for a check. Retry-After contains the seconds to wait'
  },
  too_many_nodes: { kind: 'conflict', means: 'There are already 10000 nodes' },
  too_many_parts: { kind: 'too_large', means: 'The form has too many parts' },
  too_many_relays: { kind: 'unavailable', means: 'Too many requests to nodes are in progress' },
  too_many_searches: { kind: 'too_many', means: 'Too many searches are in progress' },
  too_many_sources: { kind: 'conflict', means: 'The project has the maximum number of log sources' },
  too_many_targets: { kind: 'conflict', means: 'The server has the maximum number of notification targets' },
  too_many_tickets: { kind: 'too_many', means: 'Too many unused tickets exist' },
  too_many_tokens: { kind: 'conflict', means: 'There are already 1000 named tokens' },
  too_many_uploads: {
    kind: 'too_many',
    means: 'The project, or the server, has the maximum number of unfinished uploads'
  },
  too_much_at_once: { kind: 'too_many', means: 'The requests of the caller hold as much data as one caller may' },
  torn_manifest: {
    kind: 'conflict',
    means: 'The list of files of the deployment is incomplete, or that of another one'
  },
  transaction_too_large: { kind: 'too_large', means: 'The change is too large for one transaction' },
  superseded: { kind: 'conflict', means: 'A later release was put in place while the deployment waited' },
  tree_differs: { kind: 'conflict', means: 'The digest that was approved or signed is not that of the files' },
  tree_not_ready: {
    kind: 'unavailable',
    means: 'The list of the files that svc owns in the target is still being made'
  },
  tree_too_large: { kind: 'too_large', means: 'The tree has too many entries or bytes' },
  truncated: { kind: 'invalid', means: 'The form ends before its last boundary' },
  truncated_zip: { kind: 'invalid', means: 'The archive ends too early' },
  unauthorized: { kind: 'unauthorized', means: 'The token is missing or invalid' },
  undecodable_name: { kind: 'invalid', means: 'A name in the archive cannot be decoded' },
  undo_outdated: { kind: 'conflict', means: 'Another deployment was made before the undo began' },
  unknown_setting: { kind: 'invalid', means: 'There is no setting with this key' },
  unsupported_entry: {
    kind: 'invalid',
    means: 'An entry of the archive is neither a file nor a directory nor a symbolic link'
  },
  unsupported_method: { kind: 'invalid', means: 'The compression method of an entry is not supported' },
  unsupported_type: { kind: 'unsupported_type', means: 'The Content-Type is not supported' },
  upload_busy: { kind: 'conflict', means: 'Another request is using the upload' },
  upload_differs: { kind: 'invalid', means: 'The uploaded file is not the one that was announced' },
  upload_incomplete: { kind: 'conflict', means: 'The upload is incomplete' },
  upload_unknown: {
    kind: 'not_found',
    means: 'The upload was finished or dropped, has expired, or belongs to another token'
  },
  upgrade_required: { kind: 'upgrade', means: 'The route accepts WebSocket connections only' },
  variables_key: { kind: 'unavailable', means: 'The key file of the secret variables is missing or wrong' },
  verify_busy: { kind: 'conflict', means: 'Another verification of the project is in progress' },
  websocket_unavailable: { kind: 'unsupported', means: 'The runtime of the server has no WebSocket' },
  write_failed: { kind: 'unavailable', means: 'The change could not be written to the database' },
  write_unknown: { kind: 'unavailable', means: 'It is unknown whether the cluster accepted the change' },
  written_through_link: { kind: 'conflict', means: 'An entry of the archive lies below a symbolic link' },
  wrong_code: { kind: 'unauthorized', means: 'The code is wrong, or was used before' },
  wrong_csrf: {
    kind: 'forbidden',
    means: 'A request that changes something with a browser session needs the header X-Svc-Csrf'
  },
  wrong_digest: { kind: 'invalid', means: 'The body is not the one that was signed' },
  wrong_offset: {
    kind: 'conflict',
    means: 'The piece does not begin where the upload ends. The header Upload-Offset contains the right byte'
  },
  wrong_part: { kind: 'conflict', means: 'A part of an answer is not the expected one. For agents' },
  wrong_signature: { kind: 'unauthorized', means: 'The signature of the request is wrong' },
  wrong_token: { kind: 'unauthorized', means: 'The token is wrong' }
}

/** Codes that several routes have: the tag `@errors` of the map of routes names them as `*archive`. */
export const errorGroups: Readonly<Record<string, readonly string[]>> = {
  // Of invalid archives. An import answers them; a deployment fails because of them.
  archive: [
    'absolute_path',
    'backslash_in_name',
    'control_character_in_name',
    'crc_mismatch',
    'damaged_entry',
    'damaged_zip',
    'duplicate_entry',
    'empty_link',
    'empty_name',
    'empty_segment',
    'empty_zip',
    'encrypted_entry',
    'extracted_too_large',
    'file_and_directory',
    'invisible_character_in_name',
    'link_leaves_target',
    'link_loop',
    'links_too_long',
    'multi_disk_zip',
    'name_too_long',
    'names_too_large',
    'not_a_zip',
    'overlapping_entries',
    'path_leaves_target',
    'reserved_name',
    'size_mismatch',
    'too_many_directories',
    'too_many_entries',
    'truncated_zip',
    'undecodable_name',
    'unsupported_entry',
    'unsupported_method',
    'written_through_link'
  ],
  file: [
    'not_found',
    'file_missing',
    'denied_path',
    'not_a_file',
    'not_readable',
    'file_unreachable',
    'changed_meanwhile',
    'broken_gzip',
    'inflates_too_large',
    'no_space',
    'invalid_field'
  ],
  rollout: ['not_found', 'other_project', 'rollout_state'],
  signed: [
    'signature_missing',
    'signature_unknown_key',
    'signature_bad',
    'signature_expired',
    'signature_other_project',
    'signature_replayed',
    'signature_below_threshold',
    'signers_unreadable'
  ],
  upload: [
    'no_file',
    'no_boundary',
    'broken_boundary',
    'broken_header',
    'header_too_long',
    'field_too_long',
    'epilogue_too_long',
    'too_many_parts',
    'truncated',
    'aborted',
    'empty_upload',
    'too_large',
    'home_full',
    'project_quota',
    'disk_full',
    'body_timeout',
    'unsupported_type',
    'no_second_copy',
    'not_placed',
    'shutting_down'
  ]
}
