import { Refusal } from '../../base/errors.js'
import { readClusterFile } from '../../config/cluster-file.js'
import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { clusterOptionsOf } from '../service/cluster-options.js'

/** The command `svc cluster forget`. */
export const command = defineCommand({
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
    const { forgetHub } = await import('../../store/log/forgetting.js')
    await forgetHub({ etcd, cluster: name, clusterKey: key, hub: own }, hub)
    if (json) output.json({ cluster: name, forgotten: hub })
    else output.print(`"${hub}" is not a hub of the cluster "${name}" any more`)
    output.note(
      'If somebody else may have its disk: change the password of etcd, the admin token and the keys (docs/fleet.md)'
    )
    return exitCodes.success
  }
})
