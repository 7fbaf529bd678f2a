import type { CommandGroup, CommandRow } from './command.js'

/** Headings of the groups of commands, in the order of the help. */
export const commandGroups: Readonly<Record<CommandGroup, string>> = {
  deploying: 'Deploying',
  projects: 'Projects',
  fleet: 'Fleet',
  logs: 'Logs',
  access: 'Access',
  server: 'Server',
  data: 'Data',
  configuration: 'Configuration'
}

/** All commands, by group, the most used first. The module of a command is loaded when it runs. */
export const commands: readonly CommandRow[] = [
  {
    name: 'push',
    aliases: ['deploy'],
    group: 'deploying',
    summary: 'pack, upload and deploy a build (alias: svc deploy)',
    load: () => import('./commands/push.js')
  },
  {
    name: 'plan',
    group: 'deploying',
    summary: 'show what a push would do, without changing anything',
    load: () => import('./commands/plan.js')
  },
  {
    name: 'drift',
    group: 'deploying',
    summary: 'list the files that were edited on the server',
    load: () => import('./commands/drift.js')
  },
  {
    name: 'status',
    group: 'deploying',
    summary: 'show a project and its latest deployments',
    load: () => import('./commands/status.js')
  },
  {
    name: 'rollback',
    group: 'deploying',
    summary: 'redeploy the archive of an earlier deployment',
    load: () => import('./commands/rollback.js')
  },
  {
    name: 'undo',
    group: 'deploying',
    summary: 'restore the files before the last deployment',
    load: () => import('./commands/undo.js')
  },
  {
    name: 'repair',
    group: 'deploying',
    summary: 'put back files that are not as deployed',
    load: () => import('./commands/repair.js')
  },
  {
    name: 'init',
    group: 'deploying',
    summary: 'create svc.config.json in the current directory',
    load: () => import('./commands/init.js')
  },
  {
    name: 'cancel',
    group: 'deploying',
    summary: 'cancel a queued or running deployment',
    load: () => import('./commands/cancel.js')
  },
  {
    name: 'confirm',
    group: 'deploying',
    summary: 'confirm a deployment that waits for it',
    load: () => import('./commands/confirm.js')
  },
  {
    name: 'revert',
    group: 'deploying',
    summary: 'put back the files before a deployment that is not settled',
    load: () => import('./commands/revert.js')
  },
  {
    name: 'open',
    group: 'deploying',
    summary: 'open the panel page of a deployment or project',
    load: () => import('./commands/open.js')
  },
  {
    name: 'build',
    group: 'deploying',
    summary: 'pack a build without uploading it',
    load: () => import('./commands/build.js')
  },

  {
    name: 'list',
    aliases: ['ls', 'projects list'],
    group: 'projects',
    summary: 'list projects (aliases: svc ls, svc projects list)',
    load: () => import('./commands/list.js')
  },
  {
    name: 'projects create',
    group: 'projects',
    summary: 'create a project',
    load: () => import('./commands/projects-create.js')
  },
  {
    name: 'projects show',
    group: 'projects',
    summary: 'show the settings of a project',
    load: () => import('./commands/projects-show.js')
  },
  {
    name: 'projects set',
    group: 'projects',
    summary: 'change the settings of a project',
    load: () => import('./commands/projects-set.js')
  },
  {
    name: 'projects token',
    group: 'projects',
    summary: 'print or replace the deploy token of a project',
    load: () => import('./commands/projects-token.js')
  },
  {
    name: 'projects pm2-logs',
    group: 'projects',
    summary: 'add the log files of the PM2 application',
    load: () => import('./commands/projects-pm2-logs.js')
  },
  {
    name: 'projects delete',
    group: 'projects',
    summary: 'delete a project, its deployments and its archives',
    load: () => import('./commands/projects-delete.js')
  },
  {
    name: 'lock',
    group: 'projects',
    summary: 'refuse deployments of a project for some time',
    load: () => import('./commands/lock.js')
  },
  {
    name: 'unlock',
    group: 'projects',
    summary: 'remove the lock of a project',
    load: () => import('./commands/unlock.js')
  },
  {
    name: 'locks',
    group: 'projects',
    summary: 'list the locks in force, and the projects in maintenance',
    load: () => import('./commands/locks.js')
  },
  {
    name: 'maintenance on',
    group: 'projects',
    summary: 'show visitors of a project a maintenance page',
    load: () => import('./commands/maintenance-on.js')
  },
  {
    name: 'maintenance off',
    group: 'projects',
    summary: 'end the maintenance of a project',
    load: () => import('./commands/maintenance-off.js')
  },
  {
    name: 'maintenance status',
    group: 'projects',
    summary: 'say whether a project is in maintenance',
    load: () => import('./commands/maintenance-status.js')
  },
  {
    name: 'env list',
    group: 'projects',
    summary: 'list the script variables of a project',
    load: () => import('./commands/env-list.js')
  },
  {
    name: 'env set',
    group: 'projects',
    summary: 'set a script variable of a project',
    load: () => import('./commands/env-set.js')
  },
  {
    name: 'env unset',
    group: 'projects',
    summary: 'remove script variables of a project',
    load: () => import('./commands/env-unset.js')
  },
  {
    name: 'env import',
    group: 'projects',
    summary: 'set script variables from a .env file',
    load: () => import('./commands/env-import.js')
  },

  {
    name: 'fleet nodes',
    group: 'fleet',
    summary: 'list the nodes of the fleet',
    load: () => import('./commands/fleet-nodes.js')
  },
  {
    name: 'fleet node',
    group: 'fleet',
    summary: 'show a node and what it has',
    load: () => import('./commands/fleet-node.js')
  },
  {
    name: 'fleet enroll',
    group: 'fleet',
    summary: 'print the command that makes a machine a node',
    load: () => import('./commands/fleet-enroll.js')
  },
  {
    name: 'fleet enrollments',
    group: 'fleet',
    summary: 'list or revoke the tokens for new nodes',
    load: () => import('./commands/fleet-enrollments.js')
  },
  {
    name: 'fleet set',
    group: 'fleet',
    summary: 'rename a node, or change its labels',
    load: () => import('./commands/fleet-set.js')
  },
  {
    name: 'fleet place',
    group: 'fleet',
    summary: 'place a project on nodes, or list its nodes',
    load: () => import('./commands/fleet-place.js')
  },
  {
    name: 'fleet unplace',
    group: 'fleet',
    summary: 'take a project off nodes',
    load: () => import('./commands/fleet-unplace.js')
  },
  {
    name: 'fleet drain',
    group: 'fleet',
    summary: 'leave a node out of rollouts',
    load: () => import('./commands/fleet-drain.js')
  },
  {
    name: 'fleet undrain',
    group: 'fleet',
    summary: 'let a node take part in rollouts again',
    load: () => import('./commands/fleet-undrain.js')
  },
  {
    name: 'fleet forget',
    group: 'fleet',
    summary: 'remove a node from the fleet',
    load: () => import('./commands/fleet-forget.js')
  },
  {
    name: 'rollout status',
    group: 'fleet',
    summary: 'show the waves of a rollout, or follow them',
    load: () => import('./commands/rollout-status.js')
  },
  {
    name: 'rollout list',
    group: 'fleet',
    summary: 'list rollouts',
    load: () => import('./commands/rollout-list.js')
  },
  {
    name: 'rollout halt',
    group: 'fleet',
    summary: 'stop a rollout: no other node begins',
    load: () => import('./commands/rollout-halt.js')
  },
  {
    name: 'rollout resume',
    group: 'fleet',
    summary: 'continue a halted rollout',
    load: () => import('./commands/rollout-resume.js')
  },
  {
    name: 'rollout revert',
    group: 'fleet',
    summary: 'put back the files before a rollout',
    load: () => import('./commands/rollout-revert.js')
  },
  {
    name: 'rollout approve',
    group: 'fleet',
    summary: 'begin the next wave of a rollout',
    load: () => import('./commands/rollout-approve.js')
  },

  {
    name: 'logs',
    group: 'logs',
    summary: 'print or follow the output of a deployment',
    load: () => import('./commands/logs.js')
  },
  {
    name: 'tail',
    group: 'logs',
    summary: 'print, search or follow log files on the server',
    load: () => import('./commands/tail.js')
  },

  {
    name: 'token create',
    group: 'access',
    summary: 'create a named token for a person or a program',
    load: () => import('./commands/token-create.js')
  },
  {
    name: 'token list',
    group: 'access',
    summary: 'list the named tokens, their rights and last use',
    load: () => import('./commands/token-list.js')
  },
  {
    name: 'token rotate',
    group: 'access',
    summary: 'replace the secret of a named token',
    load: () => import('./commands/token-rotate.js')
  },
  {
    name: 'token revoke',
    group: 'access',
    summary: 'end a named token at once',
    load: () => import('./commands/token-revoke.js')
  },
  {
    name: 'admin reset-second-factor',
    group: 'access',
    summary: 'remove a second factor, on the server',
    load: () => import('./commands/admin-reset-second-factor.js')
  },
  {
    name: 'access report',
    group: 'access',
    summary: 'list which tokens can deploy where',
    load: () => import('./commands/access-report.js')
  },

  {
    name: 'serve',
    group: 'server',
    summary: 'run the server',
    load: () => import('./commands/serve.js'),
    outlivesReader: true
  },
  {
    name: 'agent',
    group: 'server',
    summary: 'make this machine a node of a fleet, and take its releases',
    load: () => import('./commands/agent.js'),
    outlivesReader: true
  },
  {
    name: 'doctor',
    group: 'server',
    summary: 'diagnose problems of this machine and the server',
    load: () => import('./commands/doctor.js')
  },
  {
    name: 'health',
    group: 'server',
    summary: 'check the health of the server, for scripts',
    load: () => import('./commands/health.js')
  },
  {
    name: 'systemd',
    group: 'server',
    summary: 'print a systemd unit for the server',
    load: () => import('./commands/systemd.js')
  },
  {
    name: 'audit list',
    group: 'server',
    summary: 'list the audit log',
    load: () => import('./commands/audit-list.js')
  },
  {
    name: 'audit export',
    group: 'server',
    summary: 'export the audit log, so that it can be verified',
    load: () => import('./commands/audit-export.js')
  },
  {
    name: 'audit verify',
    group: 'server',
    summary: 'verify an export of the audit log, without a server',
    load: () => import('./commands/audit-verify.js')
  },
  {
    name: 'cluster status',
    group: 'server',
    summary: 'show the hubs of the cluster, and which one leads',
    load: () => import('./commands/cluster-status.js')
  },
  {
    name: 'cluster init',
    group: 'server',
    summary: 'make this server the first hub of a cluster',
    load: () => import('./commands/cluster-init.js')
  },
  {
    name: 'cluster join',
    group: 'server',
    summary: 'make this machine a further hub of a cluster',
    load: () => import('./commands/cluster-join.js')
  },
  {
    name: 'cluster leave',
    group: 'server',
    summary: 'take this hub out of its cluster',
    load: () => import('./commands/cluster-leave.js')
  },
  {
    name: 'cluster forget',
    group: 'server',
    summary: 'remove a hub whose machine is gone from its cluster',
    load: () => import('./commands/cluster-forget.js')
  },
  {
    name: 'cluster rekey',
    group: 'server',
    summary: 'replace the key of the cluster, after a hub was lost',
    load: () => import('./commands/cluster-rekey.js')
  },
  {
    name: 'keys rotate',
    group: 'server',
    summary: 'replace the key that signs the audit log',
    load: () => import('./commands/keys-rotate.js')
  },
  {
    name: 'admin reset-password',
    aliases: ['reset-password'],
    group: 'server',
    summary: 'set a new admin token',
    load: () => import('./commands/admin-reset-password.js')
  },

  {
    name: 'backup',
    group: 'data',
    summary: 'back up the whole data directory to one file',
    load: () => import('./commands/backup.js')
  },
  {
    name: 'restore',
    group: 'data',
    summary: 'restore the data directory from a backup',
    load: () => import('./commands/restore.js')
  },
  {
    name: 'export',
    group: 'data',
    summary: 'export projects and deployments to a package',
    load: () => import('./commands/export.js')
  },
  {
    name: 'archive delete',
    group: 'data',
    summary: 'delete the archive of one deployment',
    load: () => import('./commands/archive-delete.js')
  },
  {
    name: 'target forget',
    group: 'data',
    summary: 'give up a half changed target that is gone for good',
    load: () => import('./commands/target-forget.js')
  },
  { name: 'import', group: 'data', summary: 'import an export package', load: () => import('./commands/import.js') },
  {
    name: 'verify',
    group: 'data',
    summary: 'verify the data directory, or the files of a project',
    load: () => import('./commands/verify.js')
  },
  {
    name: 'home',
    group: 'data',
    summary: 'print the path of the data directory',
    load: () => import('./commands/home.js')
  },

  {
    name: 'login',
    group: 'configuration',
    summary: 'check a token and store it for a server',
    load: () => import('./commands/login.js')
  },
  {
    name: 'logout',
    group: 'configuration',
    summary: 'remove the stored tokens of a server',
    load: () => import('./commands/logout.js')
  },
  {
    name: 'whoami',
    group: 'configuration',
    summary: 'show the tokens in use and what they are for',
    load: () => import('./commands/whoami.js')
  },
  {
    name: 'config',
    group: 'configuration',
    summary: 'show the effective configuration and its sources',
    load: () => import('./commands/config.js')
  },
  {
    name: 'config:get',
    group: 'configuration',
    summary: 'print one value of the effective configuration',
    load: () => import('./commands/config-get.js')
  },
  {
    name: 'config:set',
    group: 'configuration',
    summary: 'set a configuration value',
    load: () => import('./commands/config-set.js')
  },
  {
    name: 'config:list',
    group: 'configuration',
    summary: 'show the global configuration',
    load: () => import('./commands/config-list.js')
  },
  {
    name: 'completion',
    group: 'configuration',
    summary: 'print the completion script for a shell',
    load: () => import('./commands/completion.js')
  },
  {
    name: 'telemetry:status',
    group: 'configuration',
    summary: 'show whether and where usage statistics are sent',
    load: () => import('./commands/telemetry-status.js')
  },
  {
    name: 'telemetry:on',
    group: 'configuration',
    summary: 'turn usage statistics on',
    load: () => import('./commands/telemetry-on.js')
  },
  {
    name: 'telemetry:off',
    group: 'configuration',
    summary: 'turn usage statistics off',
    load: () => import('./commands/telemetry-off.js')
  },
  {
    name: 'telemetry:endpoint',
    group: 'configuration',
    summary: 'set the address that receives usage statistics',
    load: () => import('./commands/telemetry-endpoint.js')
  },
  {
    name: 'version',
    group: 'configuration',
    summary: 'print the version of svc',
    load: () => import('./commands/version.js')
  },
  {
    name: 'values',
    group: 'configuration',
    summary: 'print values for shell completion',
    hidden: true,
    load: () => import('./commands/values.js')
  },
  {
    name: 'help',
    group: 'configuration',
    summary: 'show this page or the help of a command',
    load: () => Promise.reject(new Error('help has no module'))
  }
]
