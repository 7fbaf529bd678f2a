/*
 * Packing, against `zip -rq` at the same level on the same trees: 100 files of 5 MB that compress by half, and 10,000
 * of 6 KB. Wall time, each in a process of its own, so that both pay for their start; peak memory of ours is printed.
 *
 * What two cores bring is seen only where both are free: on a busy machine compare the processor time, which is
 * printed, too. Beside the two, 70,000 tiny files, of which each costs a look, an open file and two headers.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pack } from '../../lib/cli/pack/pack.js'
import { compare, machine, sized } from '../support/bench.js'

const self = fileURLToPath(import.meta.url)

/** Returns half noise and half text, in alternating runs of 512 bytes. */
function halfCompressible(bytes: number, seed: number): Buffer {
  const content = Buffer.alloc(bytes)
  for (let at = 0; at < bytes; at += 1024) {
    const noise = createHash('shake256', { outputLength: 512 }).update(`${seed} ${at}`).digest()
    noise.copy(content, at)
    if (at + 1024 <= bytes)
      content.write('const deployed = server.value(function () { return release })\n'.repeat(9), at + 512, 512)
  }
  return content
}

function makeTree(directory: string, files: number, bytes: number): void {
  for (let i = 0; i < files; i++) {
    const folder = join(directory, `d${i % 100}`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, `f${i}.js`), halfCompressible(bytes, i))
  }
}

function seconds(program: string, words: string[], cwd: string): number {
  const started = performance.now()
  const { status, stderr } = spawnSync(program, words, { cwd, stdio: ['ignore', 'ignore', 'pipe'] })
  if (status !== 0) throw new Error(`${program}: ${String(stderr)}`)
  return (performance.now() - started) / 1000
}

/** Returns user and system time of `zip` as the shell reports them. */
function processorSeconds(zip: string, tree: string): string {
  rmSync(zip, { force: true })
  const { stdout } = spawnSync('sh', ['-c', 'zip -rq -6 "$0" . && times', zip], { cwd: tree, encoding: 'utf8' })
  const seconds = [...(stdout.split('\n')[1] ?? '').matchAll(/(\d+)m([\d.]+)s/g)].map(
    ([, m, s]) => Number(m) * 60 + Number(s)
  )
  return `${seconds.reduce((sum, each) => sum + each, 0).toFixed(2)} s`
}

async function packOnce(outputDir: string, archivePath: string): Promise<void> {
  const packed = await pack({
    cwd: '/',
    outputDir,
    files: [],
    ignore: { builtin: true, project: [], cli: [] },
    archivePath,
    level: 6
  })
  const peakMiB = Math.round(process.resourceUsage().maxRSS / 1024)
  const { user, system } = process.cpuUsage()
  console.log(
    JSON.stringify({ files: packed.files, zipBytes: packed.bytes, peakMiB, cpuSeconds: (user + system) / 1e6 })
  )
}

async function bench(): Promise<void> {
  const stage = mkdtempSync(join(tmpdir(), 'svc-bench-pack-'))
  const hasZip = spawnSync('zip', ['-v']).status === 0
  const trees: Array<[name: string, files: number, bytes: number, atMost: number]> = [
    ['100 files of 5 MB', sized(100, 2), sized(5_000_000, 2000), 0.7],
    ['10,000 files of 6 KB', sized(10_000, 20), 6 * 1024, 1],
    ['70,000 files of 64 bytes', sized(70_000, 50), 64, 1]
  ]
  console.log(`packing, ${machine()}`)
  try {
    for (const [name, files, bytes, atMost] of trees) {
      const tree = join(stage, 'tree')
      makeTree(tree, files, bytes)
      const [ours, theirs] = [join(stage, 'ours.zip'), join(stage, 'theirs.zip')]
      await compare({
        name: `pack ${name}`,
        unit: 's',
        goals: [{ beside: 'zip -rq -6', atMost }],
        contestants: {
          svc: () => {
            rmSync(ours, { force: true })
            return seconds(process.execPath, [self, tree, ours], stage)
          },
          'zip -rq -6': hasZip
            ? () => {
                rmSync(theirs, { force: true })
                return seconds('zip', ['-rq', '-6', theirs, '.'], tree)
              }
            : null
        }
      })
      rmSync(ours, { force: true })
      const seen = JSON.parse(execFileSync(process.execPath, [self, tree, ours], { encoding: 'utf8' })) as Record<
        string,
        number
      >
      const against = existsSync(theirs) ? `, zip's ${statSync(theirs).size}` : ''
      console.log(
        `  peak memory ${seen['peakMiB']} MiB (target: at most 150); archive of ${seen['zipBytes']} bytes${against}`
      )
      console.log(
        `  processor time ${seen['cpuSeconds']?.toFixed(2)} s${hasZip ? `, zip's ${processorSeconds(theirs, tree)}` : ''}`
      )
      rmSync(tree, { recursive: true })
    }
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

const [tree, archivePath] = process.argv.slice(2)
if (tree !== undefined && archivePath !== undefined) await packOnce(tree, archivePath)
else await bench()
