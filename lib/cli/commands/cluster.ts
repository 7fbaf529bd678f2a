import { join, resolve } from 'node:path'
import { systemClock } from '../../base/clock.js'
import { randomIds } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { countOf } from '../../base/text.js'
import { clusterKeyName, readClusterFile, readClusterKeys } from '../../base/config/cluster-file.js'
import { ensureHome, locateHome } from '../../base/config/home.js'
import type { ClusterStatus } from '../../model/health.js'
import { clusterOf, runningHub } from '../client/local.js'
import { defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { checkMembers, clusterFileOf, clusterOptionsOf } from '../service/cluster-options.js'
import { type Column, renderTable } from '../terminal/columns.js'
import { confirmation } from '../terminal/prompt.js'
import { hubOptions } from '../service/running.js'

/** The commands for the hubs of a cluster. */
export const commands = {
  'cluster status': defineCommand({
    options: { json: sharedOptions.json },
    details:
      'Asks the hub of this data directory (SVC_HOME): which hub leads, how far the others are, and how old its reads may be.\n' +
      'The exit code is 1 if the hub hears of no leader.',
    examples: [['cluster status', 'show the hubs of the cluster']],
    async run({ options: { json } }, { env, cwd, output }) {
      const home = locateHome(env, cwd)
      const cluster = await clusterOf(await runningHub(home, env), home)
      output.result(json, cluster, () => linesOf(cluster))
      return cluster.role === 'alone' ? exitCodes.failed : exitCodes.success
    }
  }),

  'cluster init': defineCommand({
    options: {
      ...hubOptions,
      cluster: option('name', 'name of the cluster, if etcd serves several (default: svc)'),
      json: sharedOptions.json
    },
    details:
      'Makes the server of this data directory (SVC_HOME) the first hub of a new cluster. Stop the server first. Nothing is lost:\n' +
      'projects, deployments and the audit log move into the cluster, and each target becomes that of the node of this hub, where\n' +
      'it is. The files as they were stay in a directory beside the data directory.\n\n' +
      'On a hub that was restored from a backup, after the log in etcd was lost, it begins the log again.\n\n' +
      'A crash leaves either the server as it was, or the hub. Run the command again to find out, and to go on.',
    examples: [
      [
        'cluster init --store etcd:https://e1:2379,https://e2:2379,https://e3:2379 --etcd-ca ca.pem --etcd-user svc --etcd-password-file pw --hub-name h1 --hub-url https://h1:5431',
        'make this server the first hub'
      ]
    ],
    async run({ options: { json, cluster, ...words } }, { env, cwd, output }) {
      const home = locateHome(env, cwd)
      await ensureHome(home)
      const known = await readClusterFile(home.directory)
      const file = clusterFileOf(words, { known, cwd, cluster })
      const { beginCluster } = await import('../../cluster/begin.js')
      const begun = await beginCluster({
        home,
        file,
        async optionsOf(keys) {
          const options = await clusterOptionsOf(file, { home, env, keys })
          await checkMembers(options, output.warn)
          return options
        },
        clock: systemClock,
        ids: randomIds,
        warn: output.warn
      })
      if (json) output.json({ cluster: file.cluster, hub: file.hub, ...begun })
      else {
        const what = `${countOf(begun.projects, 'project')} and ${countOf(begun.deployments, 'deployment')}`
        output.print(`"${file.hub.name}" is a hub of the cluster "${file.cluster}", with ${what}`)
      }
      if (begun.aside !== null) output.note(`The files as they were are in ${begun.aside}`)
      output.note(`Start it: svc serve --store etcd:${file.etcd.endpoints.join(',')}`)
      output.note(`For each further hub, copy ${join(home.directory, clusterKeyName)}: svc cluster join --key-file`)
    }
  }),

  'cluster join': defineCommand({
    options: {
      'key-file': option('file', 'copy of cluster.key of another hub'),
      ...hubOptions,
      cluster: option('name', 'name of the cluster, if etcd serves several (default: svc)'),
      json: sharedOptions.json
    },
    details:
      'Makes this machine a further hub of a cluster. The data directory (SVC_HOME) must be empty, and another hub must run: the\n' +
      'database comes from it. The key is copied to cluster.key; remove the file that you carried here.',
    examples: [
      [
        'cluster join --key-file cluster.key --store etcd:https://e1:2379,https://e2:2379,https://e3:2379 --etcd-ca ca.pem --hub-name h2 --hub-url https://h2:5431',
        'make this machine a hub'
      ]
    ],
    async run({ options: { json, cluster, 'key-file': keyFile, ...words } }, { env, cwd, output }) {
      if (keyFile === undefined) throw usage('--key-file', '--key-file is missing: copy cluster.key from another hub')
      const home = locateHome(env, cwd)
      const keys = await readClusterKeys(resolve(cwd, keyFile))
      const file = clusterFileOf(words, { known: null, cwd, cluster })
      const options = await clusterOptionsOf(file, { home, env, keys })
      await checkMembers(options, output.warn)
      const { joinCluster } = await import('../../cluster/membership.js')
      const joined = await joinCluster({ home, file, options, warn: output.warn, info: output.note })
      output.result(
        json,
        { cluster: file.cluster, hub: file.hub, ...joined },
        `"${file.hub.name}" is a hub of the cluster "${file.cluster}"`
      )
      output.note(`Start it: svc serve --store etcd:${file.etcd.endpoints.join(',')}`)
    }
  }),

  'cluster leave': defineCommand({
    options: { force: toggle('leave although archives may be on this hub only'), json: sharedOptions.json },
    details:
      'Takes the hub of this data directory (SVC_HOME) out of its cluster. Stop its server first.\n\n' +
      'If other hubs remain, its files are put aside; its node can go on as an agent of the others. The last hub becomes a server\n' +
      'without a cluster again: projects, deployments, audit log and targets are those of the server.',
    examples: [['cluster leave', 'leave the cluster']],
    async run({ options: { force, json } }, { env, cwd, output }) {
      const home = locateHome(env, cwd)
      const { leaveCluster } = await import('../../cluster/membership.js')
      const { hub, outcome, aside } = await leaveCluster({
        home,
        optionsOf: file => clusterOptionsOf(file, { home, env }),
        force,
        clock: systemClock,
        warn: output.warn,
        info: output.note
      })
      if (json) output.json({ cluster: hub?.cluster ?? null, hub: hub?.hub ?? null, outcome, aside })
      else if (outcome === 'alone') output.print('This server is not part of a cluster any more. Start it: svc serve')
      else output.print(`${hub === null ? 'This hub' : `"${hub.hub.name}"`} has left its cluster`)
      if (aside !== null) output.note(`The files as they were are in ${aside}`)
    }
  }),

  'cluster forget': defineCommand({
    operands: { hub: { required: true, help: 'name of the hub' } },
    options: { json: sharedOptions.json },
    details:
      'Removes a hub whose machine is gone from its cluster. Run it on another hub (SVC_HOME is its data directory), which may be\n' +
      'running or not. From then on the cluster keeps no log for the hub that is gone, and no archive is expected there.\n\n' +
      'A hub that was seen in the last minute is refused: "svc cluster leave" on its machine takes it out. The key of the hub is\n' +
      'removed from etcd, so the other hubs accept nothing from it, and it does not start again. What its disk still has: a copy\n' +
      'of the database with its secrets, cluster.key, and the password of etcd (docs/fleet.md): "svc cluster rekey" replaces the\n' +
      'key. Its node is forgotten with "svc fleet forget".',
    examples: [['cluster forget h2', 'the machine of h2 is gone']],
    async run({ operands: { hub }, options: { json } }, { env, cwd, output }) {
      const home = locateHome(env, cwd)
      const file = await readClusterFile(home.directory)
      if (file === null) {
        const sentence = `"${home.directory}" is not a hub of a cluster. Use SVC_HOME to choose the data directory`
        throw new Refusal('not_found', 'no_cluster', sentence)
      }
      const { etcd, name, key, hub: own } = await clusterOptionsOf(file, { home, env })
      const { forgetHub } = await import('../../cluster/membership.js')
      await forgetHub({ etcd, cluster: name, clusterKey: key, hub: own }, hub)
      output.result(json, { cluster: name, forgotten: hub }, `"${hub}" is not a hub of the cluster "${name}" any more`)
      output.note(
        'If somebody else may have its disk: change the password of etcd, the admin token and the keys (docs/fleet.md)'
      )
    }
  }),

  'cluster rekey': defineCommand({
    options: {
      yes: { ...sharedOptions.yes, help: 'do not ask before replacing the key; required without a terminal' },
      json: sharedOptions.json
    },
    details:
      'Replaces cluster.key, with which every value in etcd is sealed: after a hub was lost, or a copy of the key. A hub that was\n' +
      'removed then opens nothing that etcd contains, and nothing that it writes there is accepted.\n\n' +
      'Run it on the machine of the hub that leads (SVC_HOME is its data directory). All hubs must run: each one gets the new key\n' +
      'from the leader, and all use it from the same moment on. If one does not take it, nothing has changed.\n\n' +
      'Remove the hub first ("svc cluster forget"), and give etcd another password: who has the old key and can write in etcd\n' +
      'can enter the list of hubs. So look at the list before you confirm it. Backups and snapshots of etcd of before have the old\n' +
      'key.',
    examples: [['cluster rekey', 'a hub was stolen, and has been removed']],
    async run({ options: { yes, json } }, context) {
      const { env, cwd, output } = context
      const isSure = confirmation(context, { yes, what: 'Replacing the key of the cluster' })
      const home = locateHome(env, cwd)
      const client = await runningHub(home, env)
      const { hubs } = await clusterOf(client, home)
      const named = hubs.map(({ name, url }) => ({ name, url }))
      if (!json) for (const { name, url } of named) output.print(`${name}  ${url}`)
      if (!(await isSure('Give these hubs a new key, and no other one?'))) return exitCodes.failed
      const { hubs: names } = await client.call('POST /api/cluster/key', { body: { hubs: named } })
      output.result(json, { hubs: names }, 'The cluster has a new key')
      output.note(
        'Copies of cluster.key, backups and snapshots of etcd of before open nothing of now. Make a new backup'
      )
      return exitCodes.success
    }
  })
} satisfies Family

function linesOf(cluster: ClusterStatus): string[] {
  const { name, hub, role, leader, staleSeconds, sequence, problem, hubs } = cluster
  const leads = leader === null ? 'nobody leads' : `"${leader.name}" leads`
  const age = role === 'leader' ? '' : `; reads are at most ${staleSeconds} s old`
  return [
    `Cluster "${name}": ${leads}`,
    `This hub: "${hub}", ${role}, write ${sequence}${age}`,
    ...(problem === null ? [] : [problem]),
    ...renderTable(hubs, columnsOf(cluster), undefined)
  ]
}

/** A hub that was not seen for this long is silent, as in the panel. It says nothing of what it has by now. */
const silentMs = 60_000

function columnsOf({ hub, leader }: ClusterStatus): ReadonlyArray<Column<ClusterStatus['hubs'][number]>> {
  const isSilent = (name: string, seenAt: string | null): boolean =>
    name !== hub && (seenAt === null || Date.now() - Date.parse(seenAt) > silentMs)
  const writes = (behind: number): string => (behind === 0 ? 'up to date' : `${behind} behind`)
  return [
    { header: 'HUB', cell: ({ name }) => name },
    { header: 'ROLE', cell: ({ name }) => (name === leader?.name ? 'leader' : 'follower') },
    { header: 'WRITES', cell: ({ name, seenAt, behind }) => (isSilent(name, seenAt) ? 'silent' : writes(behind)) },
    { header: 'SEEN', cell: ({ seenAt }) => seenAt?.slice(0, 19).replace('T', ' ') ?? 'never' },
    { header: 'ADDRESS', cell: ({ url }) => url }
  ]
}
