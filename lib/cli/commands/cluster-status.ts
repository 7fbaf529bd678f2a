import { locateHome } from '../../config/home.js'
import type { ClusterStatus } from '../../model/cluster.js'
import { clusterOf, runningHub } from '../client/local.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { type Column, renderTable } from '../terminal/columns.js'

/** The command `svc cluster status`. */
export const command = defineCommand({
  operands: {},
  options: { json: sharedOptions.json },
  details:
    'Asks the hub of this data directory (SVC_HOME): which hub leads, how far the others are, and how old its reads may be.\n' +
    'The exit code is 1 if the hub hears of no leader.',
  examples: [['cluster status', 'show the hubs of the cluster']],
  async run({ options: { json } }, { env, cwd, output }) {
    const home = locateHome(env, cwd)
    const cluster = await clusterOf(await runningHub(home, env), home)
    if (json) output.json(cluster)
    else for (const line of linesOf(cluster)) output.print(line)
    return cluster.role === 'alone' ? exitCodes.failed : exitCodes.success
  }
})

function linesOf(cluster: ClusterStatus): string[] {
  const { name, hub, role, leader, staleSeconds, sequence, problem, hubs } = cluster
  const leads = leader === null ? 'nobody leads' : `"${leader.name}" leads`
  const age = role === 'leader' ? '' : `; reads are at most ${staleSeconds} s old`
  return [
    `Cluster "${name}": ${leads}`,
    `This hub: "${hub}", ${role}, write ${sequence}${age}`,
    ...(problem === null ? [] : [problem]),
    ...renderTable(hubs, columnsOf(leader?.name), undefined)
  ]
}

function columnsOf(leader: string | undefined): ReadonlyArray<Column<ClusterStatus['hubs'][number]>> {
  return [
    { header: 'HUB', cell: ({ name }) => name },
    { header: 'ROLE', cell: ({ name }) => (name === leader ? 'leader' : 'follower') },
    { header: 'WRITES', cell: ({ behind }) => (behind === 0 ? 'up to date' : `${behind} behind`) },
    { header: 'SEEN', cell: ({ seenAt }) => seenAt?.slice(0, 19).replace('T', ' ') ?? 'never' },
    { header: 'ADDRESS', cell: ({ url }) => url }
  ]
}
