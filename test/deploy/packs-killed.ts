/*
 * A process that removes archives and makes packs smaller until it is killed: `node packs-killed.js <deployments> <id>…`
 */
import { Packs } from '../../lib/deploy/packs.js'

const [directory = '', ...ids] = process.argv.slice(2)
const packs = new Packs(directory)
process.stdout.write('begun\n')
for (const id of ids) {
  await packs.remove(id)
  packs.shrinkLater(
    () => {},
    () => {}
  )
  await packs.idle()
}
process.stdout.write('done\n')
