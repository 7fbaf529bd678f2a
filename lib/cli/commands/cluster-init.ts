import { join } from 'node:path'
import { systemClock } from '../../base/clock.js'
import { countOf } from '../../base/text.js'
import { randomIds } from '../../base/digests.js'
import { clusterKeyName, readClusterFile } from '../../config/cluster-file.js'
import { ensureHome, locateHome } from '../../config/home.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { checkMembers, clusterFileOf, clusterOptionsOf } from '../service/cluster-options.js'
import { hubOptions } from '../service/listening.js'

/** The command `svc cluster init`. */
export const command = defineCommand({
  operands: {},
  options: {
    ...hubOptions,
    cluster: { type: 'text', value: 'name', help: 'name of the cluster, if etcd serves several (default: svc)' },
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
    const { beginCluster } = await import('../../server/cluster/begin.js')
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
    return exitCodes.success
  }
})
