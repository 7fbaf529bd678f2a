import { systemClock } from '../../base/clock.js'
import { Refusal } from '../../base/refusal.js'
import { readClusterFile } from '../../config/cluster-file.js'
import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { clusterOptionsOf } from '../service/cluster-options.js'

/** The command `svc cluster leave`. */
export const command = defineCommand({
  operands: {},
  options: {
    force: { type: 'switch', help: 'leave although archives may be on this hub only' },
    json: sharedOptions.json
  },
  details:
    'Takes the hub of this data directory (SVC_HOME) out of its cluster. Stop its server first.\n\n' +
    'If other hubs remain, its files are put aside; its node can go on as an agent of the others. The last hub becomes a server\n' +
    'without a cluster again: projects, deployments, audit log and targets are those of the server.',
  examples: [['cluster leave', 'leave the cluster']],
  async run({ options: { force, json } }, { env, cwd, output }) {
    const home = locateHome(env, cwd)
    const file = await readClusterFile(home.directory)
    if (file === null) {
      const sentence = `"${home.directory}" is not a hub of a cluster. Use SVC_HOME to choose the data directory`
      throw new Refusal('not_found', 'no_cluster', sentence)
    }
    const options = await clusterOptionsOf(file, { home, env })
    const { leaveCluster } = await import('../../server/cluster/leave.js')
    const left = await leaveCluster({ home, options, force, clock: systemClock, warn: output.warn, info: output.note })
    if (json) output.json({ cluster: file.cluster, hub: file.hub, ...left })
    else if (left.outcome === 'alone')
      output.print('This server is not part of a cluster any more. Start it: svc serve')
    else output.print(`"${file.hub.name}" has left the cluster "${file.cluster}"`)
    output.note(`The files as they were are in ${left.aside}`)
    return exitCodes.success
  }
})
