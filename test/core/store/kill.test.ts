import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { realDisk } from '../../../lib/core/store/disk.js'
import { loadSqlite } from '../../../lib/core/store/memory.js'
import { recover } from '../../../lib/core/store/recovery.js'
import { readSettings } from '../../../lib/core/store/tables/server.js'
import { bare } from '../../support/bare.js'
import { createRandom } from '../../support/random.js'
import { repetitions } from '../../support/thorough.js'

const program = fileURLToPath(new URL('./killed-writer.js', import.meta.url))
const kills = repetitions(2, 10)
const stores = 20
const longestMs = 60

/** Lets the program write and kills it at a random moment. Returns the number of acknowledged writes of each store. */
async function killWriter(directories: string[], afterMs: number): Promise<number[]> {
  const child = spawn(...bare(process.execPath, [program, ...directories]), { stdio: ['ignore', 'pipe', 'inherit'] })
  const acknowledged = directories.map(() => 0)
  let text = ''
  child.stdout.setEncoding('latin1').on('data', chunk => (text += chunk))
  const ended = new Promise(resolve => child.once('close', resolve))
  await new Promise(resolve => child.stdout.once('data', resolve))
  await sleep(afterMs)
  child.kill('SIGKILL')
  await ended
  for (const line of text.split('\n').slice(0, -1)) {
    const [which, n] = line.split(' ').map(Number) as [number, number]
    acknowledged[which] = Math.max(acknowledged[which] ?? 0, n)
  }
  return acknowledged
}

t.test(
  `keeps every acknowledged write after kill -9 at ${kills * stores} random points, also during checkpoints`,
  async t => {
    const sqlite = await loadSqlite()
    const top = t.testdir()
    const directories = Array.from({ length: stores }, (_, n) => join(top, String(n)))
    for (const directory of directories) mkdirSync(directory)
    const before = directories.map(() => 0)
    const random = createRandom(11)
    let writes = 0
    for (let kill = 0; kill < kills; kill++) {
      const acknowledged = await killWriter(directories, random.below(longestMs))
      directories.forEach((directory, which) => {
        const databasePath = join(directory, 'svc.db')
        const { memory, sequence } = recover({ sqlite, disk: realDisk, databasePath, redoPath: `${databasePath}.redo` })
        const { last = '0', ...rows } = readSettings(memory)
        memory.close()
        const count = Object.keys(rows).length
        const least = Math.max(acknowledged[which] as number, before[which] as number)
        if (count < least) t.fail(`kill ${kill}, store ${which}: ${least} were acknowledged, ${count} exist`)
        if (Number(last) !== count || sequence !== count) t.fail(`kill ${kill}, store ${which}: a write is incomplete`)
        writes += count - (before[which] as number)
        before[which] = count
      })
    }
    t.comment(`${writes} writes`)
    t.ok(writes > kills * stores, 'there were enough writes for a meaningful result')
  }
)
