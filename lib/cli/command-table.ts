import type { Command, CommandGroup, CommandRow, Family } from './command.js'

/** Headings of the groups of commands, in the order of `svc help --all`. */
export const commandGroups: Readonly<Record<CommandGroup, string>> = {
  verbs: 'Deploying',
  projects: 'Projects',
  fleet: 'Fleet',
  access: 'Access',
  server: 'Server',
  data: 'Data',
  settings: 'Settings',
  older: 'Older names'
}

/** The groups that `svc help <topic>` shows, and what they are about. */
export const topics: Readonly<Partial<Record<CommandGroup, string>>> = {
  projects: 'projects, their settings, variables, locks and log files',
  fleet: 'nodes, the projects on them, and rollouts',
  access: 'named tokens, and who can deploy where',
  server: 'run it, diagnose it, its audit log, a cluster',
  data: 'backup, export, import, verification',
  settings: 'settings of the server and of this machine, completion'
}

/** The modules of commands/, each a family of commands. One is loaded when a command of it runs. */
const families = {
  api: () => import('./commands/api.js'),
  apply: () => import('./commands/apply.js'),
  approve: () => import('./commands/approve.js'),
  audit: () => import('./commands/audit.js'),
  backup: () => import('./commands/backup.js'),
  bundle: () => import('./commands/bundle.js'),
  cluster: () => import('./commands/cluster.js'),
  completion: () => import('./commands/completion.js'),
  config: () => import('./commands/config.js'),
  'config-get': () => import('./commands/config-get.js'),
  deployments: () => import('./commands/deployments.js'),
  doctor: () => import('./commands/doctor.js'),
  env: () => import('./commands/env.js'),
  fleet: () => import('./commands/fleet.js'),
  health: () => import('./commands/health.js'),
  init: () => import('./commands/init.js'),
  'log-sources': () => import('./commands/log-sources.js'),
  keys: () => import('./commands/keys.js'),
  locks: () => import('./commands/locks.js'),
  plan: () => import('./commands/plan.js'),
  projects: () => import('./commands/projects.js'),
  push: () => import('./commands/push.js'),
  receipt: () => import('./commands/receipt.js'),
  rollback: () => import('./commands/rollback.js'),
  rollout: () => import('./commands/rollout.js'),
  serve: () => import('./commands/serve.js'),
  'server-file': () => import('./commands/server-file.js'),
  session: () => import('./commands/session.js'),
  settings: () => import('./commands/settings.js'),
  systemd: () => import('./commands/systemd.js'),
  tail: () => import('./commands/tail.js'),
  target: () => import('./commands/target.js'),
  token: () => import('./commands/token.js'),
  transfer: () => import('./commands/transfer.js'),
  verify: () => import('./commands/verify.js')
} satisfies Record<string, () => Promise<{ commands: Family }>>

/** The words of a command, its family, and its summary. */
type Row = readonly [
  name: string,
  family: keyof typeof families | null,
  summary: string,
  more?: Pick<CommandRow, 'aliases' | 'reader' | 'hidden' | 'now'>
]

/** All commands, by group, the most used first. */
const rows: Readonly<Record<CommandGroup, readonly Row[]>> = {
  verbs: [
    ['push', 'push', 'pack, upload and deploy a build (alias: svc deploy)', { aliases: ['deploy'] }],
    ['status', 'deployments', 'show a project and its latest deployments'],
    ['logs', 'deployments', 'print or follow the output of a deployment', { reader: 'awaited' }],
    ['promote', 'rollback', 'deploy the release of one project to another one'],
    ['rollback', 'rollback', 'go back to an earlier deployment'],
    ['confirm', 'rollback', 'confirm a deployment that waits for it, or say --no'],
    ['cancel', 'deployments', 'cancel a queued or running deployment'],
    ['files', 'target', 'find out whether the files are as deployed; repair them'],
    ['list', 'projects', 'list projects (aliases: svc ls, svc projects list)', { aliases: ['ls', 'projects list'] }],
    ['open', 'deployments', 'open the panel page of a deployment or project'],
    ['init', 'init', 'create svc.config.json in the current directory'],
    ['login', 'session', 'check a token and store it for a server']
  ],
  projects: [
    ['projects create', 'projects', 'create a project'],
    ['projects show', 'projects', 'show the settings of a project'],
    ['projects set', 'projects', 'change the settings of a project'],
    ['projects token', 'projects', 'print or replace the deploy token of a project'],
    ['projects pm2-logs', 'tail', 'add the log files of the PM2 application'],
    ['projects delete', 'projects', 'delete a project, its deployments and its archives'],
    ['approve', 'approve', 'approve a deployment that waits for it'],
    ['reject', 'approve', 'reject a deployment that waits for an approval'],
    ['lock', 'locks', 'refuse deployments of a project for some time'],
    ['unlock', 'locks', 'remove the lock of a project'],
    ['locks', 'locks', 'list the locks in force, and the projects in maintenance'],
    ['maintenance on', 'locks', 'show visitors of a project a maintenance page'],
    ['maintenance off', 'locks', 'end the maintenance of a project'],
    ['maintenance status', 'locks', 'say whether a project is in maintenance'],
    ['env list', 'env', 'list the script variables of a project'],
    ['env set', 'env', 'set a script variable of a project'],
    ['env unset', 'env', 'remove script variables of a project'],
    ['env import', 'env', 'set script variables from a .env file'],
    ['logs sources list', 'log-sources', 'list the log files of a project'],
    ['logs sources add', 'log-sources', 'add log files to a project'],
    ['logs sources remove', 'log-sources', 'remove a log file from its project'],
    ['search-components', 'projects', 'find where a component is in place now'],
    ['tail', 'tail', 'print, search or follow log files on the server', { reader: 'awaited' }],
    ['build', 'bundle', 'pack a build without uploading it'],
    ['bundle', 'bundle', 'pack a build to carry it to another server'],
    ['bundle verify', 'bundle', 'check a bundle, without a server'],
    ['bundle show', 'bundle', 'show what a bundle contains']
  ],
  fleet: [
    ['fleet nodes', 'fleet', 'list the nodes of the fleet'],
    ['fleet node', 'fleet', 'show a node and what it has'],
    ['fleet enroll', 'fleet', 'print the command that makes a machine a node'],
    ['fleet enrollments', 'fleet', 'list or revoke the tokens for new nodes'],
    ['fleet set', 'fleet', 'rename a node, or change its labels'],
    ['fleet place', 'fleet', 'place a project on nodes, or list its nodes'],
    ['fleet unplace', 'fleet', 'take a project off nodes'],
    ['fleet drain', 'fleet', 'leave a node out of rollouts'],
    ['fleet undrain', 'fleet', 'let a node take part in rollouts again'],
    ['fleet forget', 'fleet', 'remove a node from the fleet'],
    ['rollout status', 'rollout', 'show the waves of a rollout, or follow them', { reader: 'awaited' }],
    ['rollout list', 'rollout', 'list rollouts'],
    ['rollout halt', 'rollout', 'stop a rollout: no other node begins'],
    ['rollout resume', 'rollout', 'continue a halted rollout'],
    ['rollout revert', 'rollout', 'put back the files before a rollout'],
    ['rollout approve', 'rollout', 'begin the next wave of a rollout']
  ],
  access: [
    ['token create', 'token', 'create a named token for a person or a program'],
    ['token list', 'token', 'list the named tokens, their rights and last use'],
    ['token rotate', 'token', 'replace the secret of a named token'],
    ['token revoke', 'token', 'end a named token at once'],
    ['keys generate', 'keys', 'make a key that signs releases'],
    ['keys list', 'keys', 'list the keys that may sign releases'],
    ['keys trust', 'keys', 'trust a key that signs releases'],
    ['keys revoke', 'keys', 'end a key, and list what it has signed'],
    ['admin reset-second-factor', 'token', 'remove a second factor, on the server'],
    ['access report', 'token', 'list which tokens can deploy where'],
    ['whoami', 'session', 'show the tokens in use and what they are for'],
    ['logout', 'session', 'remove the stored tokens of a server']
  ],
  server: [
    ['serve', 'serve', 'run the server', { reader: 'ignored' }],
    ['agent', 'fleet', 'make this machine a node of a fleet, and take its releases', { reader: 'ignored' }],
    ['doctor', 'doctor', 'diagnose problems of this machine and the server'],
    ['health', 'health', 'check the health of the server, for scripts'],
    ['api', 'api', 'send a request to the API and print the answer', { reader: 'awaited' }],
    ['systemd', 'systemd', 'print a systemd unit for the server'],
    ['notify list', 'settings', 'list the notification targets'],
    ['notify add', 'settings', 'add a notification target'],
    ['notify test', 'settings', 'send a test message to a notification target'],
    ['notify remove', 'settings', 'remove a notification target'],
    ['audit list', 'audit', 'list the audit log', { reader: 'awaited' }],
    ['audit report', 'audit', 'write a report for an auditor', { reader: 'awaited' }],
    ['audit export', 'audit', 'export the audit log, so that it can be verified'],
    ['audit verify', 'audit', 'verify an export of the audit log, without a server'],
    ['receipt show', 'receipt', 'show the receipt of a deployment'],
    ['receipt verify', 'receipt', 'verify receipts, without a server'],
    ['receipt export', 'receipt', 'export receipts, so that they can be verified'],
    ['cluster status', 'cluster', 'show the hubs of the cluster, and which one leads'],
    ['cluster init', 'cluster', 'make this server the first hub of a cluster'],
    ['cluster join', 'cluster', 'make this machine a further hub of a cluster'],
    ['cluster leave', 'cluster', 'take this hub out of its cluster'],
    ['cluster forget', 'cluster', 'remove a hub whose machine is gone from its cluster'],
    ['cluster rekey', 'cluster', 'replace the key of the cluster, after a hub was lost'],
    ['keys rotate', 'audit', 'replace the key that signs the audit log'],
    ['admin reset-password', 'token', 'set a new admin token', { aliases: ['reset-password'] }]
  ],
  data: [
    ['backup', 'backup', 'back up the whole data directory to one file', { reader: 'needed' }],
    ['restore', 'backup', 'restore the data directory from a backup'],
    ['export', 'transfer', 'export projects and deployments to a package'],
    ['archive delete', 'transfer', 'delete the archive of one deployment'],
    ['target forget', 'target', 'give up a half changed target that is gone for good'],
    ['import', 'transfer', 'import an export package'],
    ['verify', 'verify', 'verify the data directory, or the files of a project'],
    ['home', 'config', 'print the path of the data directory']
  ],
  settings: [
    ['settings list', 'settings', 'list the settings of the server'],
    ['settings get', 'settings', 'print the value of a setting of the server'],
    ['settings set', 'settings', 'change settings of the server'],
    ['settings export', 'server-file', 'write the settings and projects of the server to a file'],
    ['apply', 'apply', 'make the server as such a file says; shows it first'],
    ['config', 'config', 'show the effective configuration and its sources'],
    ['config:get', 'config-get', 'print one value of the effective configuration'],
    ['config:set', 'config', 'set a configuration value'],
    ['config:list', 'config', 'show the global configuration'],
    ['completion', 'completion', 'print the completion script for a shell'],
    ['telemetry:status', 'config', 'show whether and where usage statistics are sent'],
    ['telemetry:on', 'config', 'turn usage statistics on'],
    ['telemetry:off', 'config', 'turn usage statistics off'],
    ['telemetry:endpoint', 'config', 'set the address that receives usage statistics'],
    ['version', 'config', 'print the version of svc'],
    ['values', 'completion', 'print values for shell completion', { hidden: true }],
    ['help', null, 'show this page or the help of a command']
  ],
  older: [
    ['plan', 'plan', 'show what a push would do, without changing anything', { now: 'push --dry-run' }],
    ['drift', 'target', 'list the files that were edited on the server', { now: 'files' }],
    ['repair', 'target', 'put back files that are not as deployed', { now: 'files --repair' }],
    ['undo', 'rollback', 'restore the files before the last deployment', { now: 'rollback --undo' }],
    ['revert', 'rollback', 'put back the files before a deployment that is not settled', { now: 'confirm --no' }]
  ]
}

/** The table of all commands. The summaries are here, so that the list of commands loads none of them. */
export const commands: readonly CommandRow[] = Object.entries(rows).flatMap(([group, own]) =>
  own.map(([name, family, summary, more]) => ({
    name,
    group: group as CommandGroup,
    family,
    summary,
    ...more,
    load: () => load(name, family)
  }))
)

async function load(name: string, family: Row[1]): Promise<Command> {
  const own: Family = family === null ? {} : (await families[family]()).commands
  if (own[name] === undefined) throw new Error(`no module has the command ${name}`)
  return own[name]
}
