import { writeSync } from 'node:fs'
import { openStore } from '../../lib/store/database.js'
import { writeSetting } from '../../lib/store/tables/settings.js'

/**
 * A program to be killed: writes to every store it is given, several writers at a time, and says `<store> <n>` on
 * stdout as soon as write n was acknowledged. Each write leaves two rows. Checkpoints come every few dozen writes.
 */
const writers = 3
const foldBytes = 12 * 1024

async function writeForEver(directory: string, which: number): Promise<void> {
  const store = await openStore({ directory, foldBytes })
  let n = store.get<{ n: number }>("SELECT count(*) AS n FROM settings WHERE key <> 'last'")?.n ?? 0
  const write = async () => {
    for (;;) {
      const mine = ++n
      await store.write(tx => {
        writeSetting(tx, `n${mine}`, 'x'.repeat((mine * 37) % 400))
        writeSetting(tx, 'last', String(mine))
      })
      writeSync(1, `${which} ${mine}\n`)
    }
  }
  for (let writer = 0; writer < writers; writer++) void write()
}

await Promise.all(process.argv.slice(2).map(writeForEver))
