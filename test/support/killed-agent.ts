/*
 * A program that runs `svc agent`, and kills itself at one step, so that every kill is exact:
 * `node killed-agent.js <file> <path of svc> agent <words…>`. It works like svc until `file` exists, which contains
 * `<after> <nth>`: the process then dies just before it writes the n-th record of its database after the journal of an
 * extraction says `<after>`; with n = 0, before the next rename. A record is a line of the redo log. `turn 0` is just
 * before the turn of the next deployment is recorded, which is then still queued.
 */
import fs, { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename } from 'node:path'
import type * as Entry from '../../lib/cli/entry.js'

const [order = '', , ...words] = process.argv.slice(2)
const { renameSync, writeSync } = fs
let said = ''
let records = 0

function dieIf(isStep: (nth: number) => boolean): void {
  if (said === '' || !existsSync(order)) return
  const [after, nth] = readFileSync(order, 'utf8').split(' ')
  if (said === after && isStep(Number(nth))) process.kill(process.pid, 'SIGKILL')
}

fs.writeSync = ((fd: number, bytes: Uint8Array, ...more: []) => {
  const name = basename(readlinkSync(`/proc/self/fd/${fd}`))
  if (name === 'svc.db.redo') {
    records++
    if (existsSync(order) && readFileSync(order, 'utf8') === 'turn 0' && Buffer.from(bytes).includes('"running"'))
      process.kill(process.pid, 'SIGKILL')
    dieIf(nth => nth === records)
  }
  const written = writeSync(fd, bytes, ...more)
  const [, word] = name.endsWith('.undo')
    ? (/(?:^|\n)(ready|placed|done)\b.*\n$/.exec(Buffer.from(bytes).toString()) ?? [])
    : []
  if (word !== undefined) [said, records] = [word, 0]
  return written
}) as typeof writeSync
fs.renameSync = (from, to) => {
  dieIf(nth => nth === 0)
  renameSync(from, to)
}
syncBuiltinESMExports()

const entry = new URL('../../lib/cli/entry.js', import.meta.url).href
const { main } = (await import(entry)) as typeof Entry
process.exitCode = await main(words, process)
