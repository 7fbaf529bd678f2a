/*
 * The memory of a server that plans a tree of 200,000 files: how far its resident size grows above that after a plan of
 * a hundred files. The target is an empty directory, so nothing but the tree needs memory.
 *
 *   node plan-memory.js
 */
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { writeTree, type Digits } from '../../lib/core/archive/tree-wire.js'
import type { TimedEntry } from '../../lib/core/archive/tree.js'
import { createTreeDigest } from '../../lib/model/manifest.js'
import { compare, machine, sized } from '../support/bench.js'
import { startServed } from '../support/served.js'
import { svcPath } from '../support/svc.js'

const files = sized(200_000, 1000)
const fewFiles = 100
const directories = 500
const settleMs = 300
const kilobytesPerMegabyte = 1000 / 1.024

function bodyOf(count: number, digits: Digits): Buffer {
  const entries = Array.from({ length: count }, (_, at): TimedEntry => {
    const name = `file-${String(at).padStart(6, '0')}.js`
    return {
      path: `assets/d${String(Math.floor((at * directories) / count)).padStart(3, '0')}/${name}`,
      mode: 0o100644,
      size: 2048,
      sha256: createHash('sha256').update(String(at)).digest('hex'),
      mtimeMs: 1_700_000_000_000 + ((at * 7919) % 100_000) * 1000
    }
  })
  const digest = createTreeDigest()
  for (const entry of entries) digest.add(entry)
  return gzipSync([...writeTree(entries, digest.end(), digits)].join(''))
}

/** Starts a server, and returns how many megabytes it grew at most during a plan. */
async function growth(few: Buffer, many: Buffer): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-bench-memory-'))
  const deployPath = join(directory, 'site')
  mkdirSync(deployPath)
  const env = { PATH: process.env['PATH'] ?? '', SVC_HOME: join(directory, 'home'), ADMIN_TOKEN: 'bench-admin-token' }
  const command = [process.execPath, svcPath, 'serve', '--port', '0'] as const
  const served = await startServed({ command, cwd: directory, env })
  try {
    const post = async (path: string, token: string, type: string, body: string | Buffer): Promise<unknown> => {
      const headers = new Headers({ authorization: `Bearer ${token}`, 'content-type': type })
      if (typeof body !== 'string') headers.set('content-encoding', 'gzip')
      const reply = await fetch(`${served.url}${path}`, { method: 'POST', headers, body })
      if (!reply.ok) throw new Error(await reply.text())
      return await reply.json()
    }
    const created = await post(
      '/api/projects',
      served.adminToken,
      'application/json',
      JSON.stringify({ name: 'bench', deployPath })
    )
    const { project } = created as { project: { id: string; token: string } }
    const plan = (body: Buffer): Promise<unknown> =>
      post(`/api/deploy/plan?projectId=${project.id}`, project.token, 'text/vnd.svc-tree', body)
    for (let round = 0; round < 3; round++) await plan(few)
    await sleep(settleMs)
    const process = `/proc/${served.pid}`
    const megabytes = (line: string): number =>
      Number(new RegExp(`${line}:\\s+(\\d+)`).exec(readFileSync(`${process}/status`, 'utf8'))?.[1]) /
      kilobytesPerMegabyte
    const before = megabytes('VmRSS')
    // Makes the current size the peak (proc(5), clear_refs).
    writeFileSync(`${process}/clear_refs`, '5')
    await plan(many)
    return megabytes('VmHWM') - before
  } finally {
    await served.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

if (process.platform !== 'linux') throw new Error('This bench reads /proc, which only Linux has')
console.log(machine())
const bodies = ([16, 64] as const).map(digits => ({ few: bodyOf(fewFiles, digits), many: bodyOf(files, digits) }))
const [short, full] = bodies as [(typeof bodies)[number], (typeof bodies)[number]]
console.log(`body: ${(short.many.length / files).toFixed(1)} bytes a file with 16 digits, compressed`)
await compare({
  name: `growth of the server during a plan of ${files} files`,
  unit: 'MB',
  contestants: {
    '16 digits': () => growth(short.few, short.many),
    '64 digits': () => growth(full.few, full.many)
  },
  target: 'at most 40 MB with 16 digits'
})
