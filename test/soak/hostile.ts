/*
 * The hostile peers of every boundary (docs/boundaries.md), one after the other, again and again with other seeds:
 * `node hostile.js [seconds] [seed]`. Those whose input is the same each time run once. Each is a test of `make test`, which
 * has a seed of its own. Prints TAP.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

const peers = {
  'helper → svc': 'core/install/unpack/executors.test.js',
  'answers of helpers → svc': 'core/proc/helper-wire.test.js',
  'node → hub': 'access/node-requests.test.js',
  'answers of nodes → hub': 'api/agent.test.js',
  'hub, and its release documents → node': 'fleet/agent/from-hub.test.js',
  'hub → hub': 'cluster/forwarded.test.js',
  'etcd → hub': 'cluster/tampered-etcd.test.js',
  'target’s owner → svc': 'operate/logs/read/open.test.js',
  'package → svc': 'carry/transfer/hostile-packages.test.js',
  'backup → svc': 'carry/backup/hostile-backups.test.js',
  'archive → svc': 'faults/hostile-archives.test.js',
  'export of the audit log → reader': 'core/audit/verifier.test.js',
  'text → expressions': 'expressions.test.js',
  'browser → server': 'api/canary.test.js'
}

const seconds = Number(process.argv[2] ?? 600)
const firstSeed = Number(process.argv[3] ?? Date.now() % 1_000_000)
const endMs = Date.now() + seconds * 1000
const tests = fileURLToPath(new URL('..', import.meta.url))
/** Tests that are not repeated take this many seeds at once. */
const seedsTogether = 10_000

const seeded = new Set(
  Object.values(peers).filter(file => readFileSync(`${tests}${file}`, 'utf8').includes('firstSeed'))
)

let count = 0
let failed = 0
for (let round = 0; round === 0 || Date.now() < endMs; round++) {
  for (const [boundary, file] of Object.entries(peers)) {
    if (round > 0 && (Date.now() >= endMs || !seeded.has(file))) continue
    const seed = firstSeed + round * seedsTogether
    const child = spawn(process.execPath, [`${tests}${file}`], {
      cwd: dirname(dirname(tests)),
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, FIRST_SEED: String(seed), TAP_TIMEOUT: '600' }
    })
    const output: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
    const [code] = (await once(child, 'close')) as [number | null]
    count++
    if (code !== 0) {
      failed++
      process.stdout.write(Buffer.concat(output).toString().replace(/^/gm, '# '))
    }
    const which = seeded.has(file) ? `seed ${seed}` : 'without a seed'
    process.stdout.write(`${code === 0 ? 'ok' : 'not ok'} ${count} - ${boundary}, ${which}\n`)
  }
}
process.stdout.write(`1..${count}\n`)
if (failed > 0) process.exitCode = 1
