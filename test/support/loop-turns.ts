/*
 * Measures a server from within (`node --import`): the longest turn of its event loop, in processor time of that thread.
 * Unlike a time between two answers, it is the same on a machine that is busy with other work. SIGUSR2 writes it in
 * milliseconds to the file that LOOP_TURNS names, and begins again. Reads /proc, so on Linux only.
 */
import { openSync, readSync, renameSync, writeFileSync } from 'node:fs'

const file = process.env['LOOP_TURNS']
const schedstat = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
const bytes = Buffer.alloc(64)

function computedMs(): number {
  readSync(schedstat, bytes, 0, bytes.length, 0)
  return Number(bytes.toString('latin1', 0, bytes.indexOf(' '))) / 1e6
}

let worstMs = 0
let lastMs = computedMs()

function turn(): void {
  const nowMs = computedMs()
  worstMs = Math.max(worstMs, nowMs - lastMs)
  lastMs = nowMs
  // Without a reference it makes no turn of its own: the loop still waits for events.
  setImmediate(turn).unref()
}
turn()

process.on('SIGUSR2', () => {
  writeFileSync(`${file}.new`, String(worstMs))
  renameSync(`${file}.new`, file as string)
  worstMs = 0
})
