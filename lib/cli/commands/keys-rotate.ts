import { join } from 'node:path'
import { locateHome } from '../../config/home.js'
import type { RotatedKey } from '../../model/audit.js'
import { requireDatabase, withLocalApi } from '../client/local.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'

/** The command `svc keys rotate`. */
export const command = defineCommand({
  operands: {},
  options: { json: sharedOptions.json },
  details:
    'Works on the data directory of this machine (SVC_HOME), whether the server is running or not. An entry of the\n' +
    'audit log contains the new key, signed by both. The old key signs further checkpoints, too, so that everybody who\n' +
    'knows it learns the new one. It is removed with the next rotation.',
  examples: [['keys rotate', 'replace the key, for example after a backup was lost']],
  async run({ options }, context) {
    const { env, cwd, output } = context
    const home = locateHome(env, cwd)
    await requireDatabase(home, 'rotate')
    const { before, after } = await withLocalApi(context, home, ({ client }) =>
      client.json<RotatedKey>({ method: 'POST', path: '/api/audit/key' })
    )
    if (options.json) output.json({ before, after })
    else output.print(after)
    output.note(`The new key is in ${join(home.keys, 'server.ed25519')}. Copy ${join(home.keys, 'server.pub')} again.`)
    return exitCodes.success
  }
})
