/*
 * `svc export` of stored archives against `cp` of the same files: 4 projects with an archive of 512 MiB each. Each in a
 * process of its own; ours without a server (it opens the data directory itself) and through a running one. The files
 * are in the page cache, and the copies go to the same disk. The target is the speed of that disk: an export ends when
 * the package is on it, so `cp` is waited for until `sync` says the same of its copies.
 */
import { spawn, spawnSync } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serve } from '../../lib/server/serve.js'
import { locateHome } from '../../lib/base/config/home.js'
import { newProject, type Project } from '../../lib/model/project.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import { aDeployment } from '../core/store/stage.js'
import { compare, machine, sized } from '../support/bench.js'
import { svcPath } from '../support/svc.js'

const projects = sized(4, 1)
const archiveBytes = sized(512 * 1024 * 1024, 1024 * 1024)
const megabytes = (projects * archiveBytes) / 1024 / 1024

const stage = mkdtempSync(join(tmpdir(), 'svc-bench-export-'))
const home = locateHome({ SVC_HOME: join(stage, 'home') }, stage)

async function furnish(): Promise<void> {
  mkdirSync(home.deployments, { recursive: true })
  const block = randomFillSync(Buffer.alloc(16 * 1024 * 1024))
  const store = await openStore({ directory: home.directory })
  const at = new Date().toISOString()
  await store.write(tx => {
    for (let i = 0; i < projects; i++) {
      const fields = { name: `Project ${i}`, deployPath: join(stage, 'sites', String(i)) }
      const made = newProject(fields, { id: `proj_${i}`, token: `token-${i}`, at })
      const project: Project = { ...made, status: 'success', lastDeployAt: at }
      const row = aDeployment({
        id: `dep_${i}`,
        projectId: project.id,
        projectName: project.name,
        startTime: at,
        endTime: at,
        duration: '1s',
        archiveBytes,
        archiveSha256: null,
        fileCount: 1,
        actorIp: null,
        steps: [],
        scripts: []
      })
      insertProject(tx, project)
      insertDeployment(tx, row)
    }
  })
  await store.close()
  for (let i = 0; i < projects; i++) {
    for (let n = 0; n * block.length < archiveBytes; n++) {
      block.writeUInt32LE(i * 1000 + n)
      writeFileSync(join(home.deployments, `dep_${i}.zip`), block, { flag: 'a' })
    }
  }
}

async function timed(program: string, words: string[]): Promise<number> {
  rmSync(join(stage, 'copy'), { recursive: true, force: true })
  rmSync(join(stage, 'copy.zip'), { force: true })
  spawnSync('sync')
  const started = performance.now()
  const child = spawn(program, words, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, SVC_HOME: home.directory }
  })
  let said = ''
  child.stderr.on('data', (text: Buffer) => (said += text))
  const code = await new Promise(resolve => child.once('close', resolve))
  if (code !== 0) throw new Error(`${program}: ${said}`)
  return megabytes / ((performance.now() - started) / 1000)
}

const copied = join(stage, 'copy')
const copy = (): Promise<number> => timed('sh', ['-c', 'cp -r "$0" "$1" && sync "$1"/*', home.deployments, copied])
const exportIt = (): Promise<number> => timed(process.execPath, [svcPath, 'export', '--out', join(stage, 'copy.zip')])
const goals = [{ beside: 'cp && sync', atLeast: 0.8 }]
const rounds = Number(process.env['ROUNDS'] ?? 5)

console.log(`export, ${machine()}`)
try {
  await furnish()
  // Not read here: the server of the second comparison is this process.
  spawnSync('sh', ['-c', 'cat "$0"/* > /dev/null', home.deployments])
  await compare({
    name: 'svc export, no server',
    unit: 'MB/s',
    rounds,
    contestants: { 'svc export': exportIt, 'cp && sync': copy },
    goals
  })
  const server = await serve({ home, port: 0, cwd: stage, environment: {}, report: { info: () => {}, warn: () => {} } })
  const before = process.resourceUsage().maxRSS
  await compare({
    name: 'svc export, a running server',
    unit: 'MB/s',
    rounds,
    contestants: { 'svc export': exportIt, 'cp && sync': copy },
    goals
  })
  console.log(
    `  peak memory of the server: ${Math.round(before / 1024)} MiB before, ${Math.round(process.resourceUsage().maxRSS / 1024)} MiB after`
  )
  await server.stop({ wait: false })
} finally {
  rmSync(stage, { recursive: true, force: true })
}
