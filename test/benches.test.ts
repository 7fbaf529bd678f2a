/*
 * Each bench of test/bench runs once at a tiny size, without rivals from npm: it ends, and prints a figure. `make bench` ends
 * with one table of what the benches told.
 */
import t from 'tap'
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { tableOf } from './support/bench-all.js'
import type { BenchRow } from './support/bench.js'

const benches = new URL('bench/', import.meta.url)
const names = readdirSync(benches)
  .filter(name => name.endsWith('.js'))
  .map(name => name.slice(0, -'.js'.length))
const directory = mkdtempSync(join(tmpdir(), 'svc-benches-'))
t.teardown(() => rmSync(directory, { recursive: true, force: true }))
const atOnce = 2

t.test('each bench runs', async t => {
  // It waits for checkpoints, half a minute each, while the others run.
  const first = 'scale'
  const waiting = [first, ...names.filter(name => name !== first)]
  const table = join(directory, 'rows')
  const work = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const env = { ...process.env, BENCH_SIZE: 'tiny', BENCH_TABLE: table }
      const program = fileURLToPath(new URL(`${name}.js`, benches))
      const { stdout, failed } = await promisify(execFile)(process.execPath, [program], { env }).then(
        ({ stdout }) => ({ stdout, failed: null }),
        (error: Error & { stderr: string }) => ({ stdout: '', failed: `${error.message}\n${error.stderr}` })
      )
      t.equal(failed, null, name)
      t.match(stdout, /\d/, `${name} prints a figure, or why it is left out`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  t.ok(names.length > 20)
  const rows = readFileSync(table, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as BenchRow)
  t.ok(rows.length > 10, 'the goals are told')
  for (const { work, ratio } of rows) t.ok(ratio > 0, work)
})

t.test('the table names work, rival, ratio and goal', async t => {
  const row = { work: 'pack', rival: 'zip', ratio: 0.98765, goal: 'at most 1', isMet: true }
  t.same(tableOf([row, { ...row, work: 'a longer work', ratio: 12.345, isMet: false }]), [
    'work           rival  ours ÷ rival  goal       met',
    'pack           zip    0.988         at most 1  yes',
    'a longer work  zip    12.3          at most 1  no'
  ])
})
