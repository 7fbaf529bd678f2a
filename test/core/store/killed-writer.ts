import { writeSync } from 'node:fs'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { writeSetting } from '../../../lib/core/store/tables/server.js'

/**
 * A program to be killed. It writes to every given store, with several writers at a time, and prints `<store> <n>` as
 * soon as write n was acknowledged. Each write adds two rows. Checkpoints run every few dozen writes. Every fourth
 * store has large rows, so that its svc.db is written in several pieces.
 */
const writers = 3
const rowBytes = 400
const largeTimes = 100

async function writeForEver(directory: string, which: number): Promise<void> {
  const mostBytes = which % 4 === 0 ? rowBytes * largeTimes : rowBytes
  const store = await openStore({ directory, foldBytes: 30 * mostBytes })
  let n = Number(store.get("SELECT count(*) AS n FROM settings WHERE key <> 'last'")?.['n'])
  const write = async () => {
    for (;;) {
      const mine = ++n
      await store.write(tx => {
        writeSetting(tx, `n${mine}`, 'x'.repeat((mine * 37) % mostBytes))
        writeSetting(tx, 'last', String(mine))
      })
      writeSync(1, `${which} ${mine}\n`)
    }
  }
  for (let writer = 0; writer < writers; writer++) void write()
}

await Promise.all(process.argv.slice(2).map(writeForEver))
