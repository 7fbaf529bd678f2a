import t from 'tap'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { extractArchive, recoverTargets } from '../../../lib/install/unpack/extract.js'
import { createExecutors } from '../../../lib/install/unpack/executors.js'
import { extractionStage, refusalOf } from '../../support/extraction.js'
import { makeZip } from '../../support/make-zip.js'
import { snapshot } from '../../support/tree.js'

/** A tree with common names, modes and contents of every kind. */
function writeTree(directory: string, withLink: boolean): void {
  mkdirSync(join(directory, 'sub/empty'), { recursive: true })
  writeFileSync(join(directory, 'index.html'), '<h1>hello</h1>\n'.repeat(500))
  writeFileSync(join(directory, 'sub/run.sh'), '#!/bin/sh\n')
  writeFileSync(join(directory, 'sub/größe 日本.txt'), 'ünïcode')
  writeFileSync(join(directory, '.env'), 'A=1')
  writeFileSync(join(directory, 'zero'), '')
  writeFileSync(join(directory, 'big.bin'), Buffer.alloc(2_000_000, 'abcdefg'))
  chmodSync(join(directory, 'sub/run.sh'), 0o755)
  if (withLink) symlinkSync('sub/run.sh', join(directory, 'link'))
  utimesSync(join(directory, 'index.html'), 1_700_000_000, 1_700_000_000)
}

const python = `
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:
    for root, dirs, files in os.walk('.'):
        for name in dirs + files: z.write(os.path.join(root, name))
`
const pythonStream = `
import os, sys, zipfile
class Out:
    def __init__(self, f): self.f = f
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
with open(sys.argv[1], 'wb') as f, zipfile.ZipFile(Out(f), 'w', zipfile.ZIP_DEFLATED) as z:
    for root, dirs, files in os.walk('.'):
        for name in files:
            with z.open(zipfile.ZipInfo.from_file(os.path.join(root, name)), 'w', force_zip64=True) as o:
                o.write(open(os.path.join(root, name), 'rb').read())
`

interface Tool {
  name: string
  command(zip: string): string[]
  keepsLinks?: true
  keepsModes?: true
  keepsEmpty?: true
}

const tools: Tool[] = [
  { name: 'zip', command: zip => ['zip', '-qry', zip, '.'], keepsLinks: true, keepsModes: true, keepsEmpty: true },
  {
    name: 'zip, stored',
    command: zip => ['zip', '-qry0', zip, '.'],
    keepsLinks: true,
    keepsModes: true,
    keepsEmpty: true
  },
  {
    name: 'zip, to a pipe',
    command: zip => ['sh', '-c', `zip -qr - . | cat > '${zip}'`],
    keepsModes: true,
    keepsEmpty: true
  },
  { name: '7z', command: zip => ['7z', 'a', '-tzip', '-bso0', '-bsp0', zip, '.'], keepsModes: true, keepsEmpty: true },
  { name: 'python3', command: zip => ['python3', '-c', python, zip], keepsModes: true, keepsEmpty: true },
  { name: 'python3, streaming with ZIP64', command: zip => ['python3', '-c', pythonStream, zip], keepsModes: true },
  { name: 'jar', command: zip => ['jar', '--create', '--no-manifest', '--file', zip, '.'], keepsEmpty: true }
]

for (const { name, command, keepsLinks, keepsModes, keepsEmpty } of tools) {
  const program = name.split(',')[0] as string
  const isMissing = spawnSync(program === 'jar' ? 'jar' : program, ['--version']).error !== undefined
  t.test(`extracts a zip made by ${name}`, { skip: isMissing && `${program} is not on this machine` }, async t => {
    const directory = t.testdir({ source: {} })
    const stage = extractionStage(directory)
    const source = join(directory, 'source')
    writeTree(source, keepsLinks ?? false)
    const [file, ...args] = command(stage.archivePath) as [string, ...string[]]
    execFileSync(file, args, {
      cwd: source,
      env: { ...process.env, LC_ALL: 'C.UTF-8' },
      stdio: ['ignore', 'ignore', 'inherit']
    })
    await stage.runThreads()
    const seen = (tree: string): string[] =>
      snapshot(tree)
        .filter(line => keepsEmpty || !line.startsWith('sub/empty'))
        .map(line => (keepsModes ? line : line.replace(/^(\S+?(?: 日本\.txt)?\/?) \d+/, '$1')))
    t.strictSame(seen(stage.target), seen(source))
    if (program !== 'jar') t.equal(statSync(join(stage.target, 'index.html')).mtimeMs, 1_700_000_000_000)
  })
}

t.test('extracts many files as declared', async t => {
  const stage = extractionStage(t.testdir())
  const entries = Array.from({ length: 900 }, (_, i) => ({
    name: `d${i % 20}/f${i}`,
    data: `${i} `.repeat(200 + (i % 100))
  }))
  stage.put(makeZip(entries))
  const { fileCount, changedPaths, bytes } = await stage.runThreads()
  t.equal(fileCount, 900)
  t.equal(changedPaths.length, 900)
  t.equal(
    bytes,
    entries.reduce((sum, { data }) => sum + data.length, 0)
  )
  for (const { name, data } of entries) {
    if (readFileSync(join(stage.target, name), 'utf8') !== data) t.fail(`${name} differs`)
  }
  t.strictSame((await stage.runThreads()).changedPaths, [])
})

t.test('puts the target back after a fault anywhere in the archive', async t => {
  const stage = extractionStage(t.testdir())
  writeFileSync(join(stage.target, 'f3'), 'old')
  const before = stage.state()
  for (const bad of [0, 200, 399]) {
    const entries = Array.from({ length: 400 }, (_, i) => ({ name: `f${i}`, data: `${i} `.repeat(800) }))
    stage.put(makeZip(entries.map((entry, i) => (i === bad ? { ...entry, crc32: 1 } : entry))))
    const { code, message } = await refusalOf(stage.runThreads())
    t.equal(code, 'crc_mismatch', message)
    t.match(message, `"f${bad}"`)
    t.strictSame(stage.state(), before)
  }
})

t.test('an abort stops the extraction and puts the target back', async t => {
  const stage = extractionStage(t.testdir())
  writeFileSync(join(stage.target, 'f3'), 'old')
  stage.put(makeZip(Array.from({ length: 800 }, (_, i) => ({ name: `f${i}`, data: `${i} `.repeat(1000) }))))
  const before = stage.state()
  const reason = new Error('cancelled by somebody')
  await t.rejects(stage.runThreads({ signal: AbortSignal.abort(reason) }), reason)
  for (const ms of [0, 30, 80]) {
    const controller = new AbortController()
    setTimeout(() => controller.abort(reason), ms)
    const outcome = await stage.runThreads({ signal: controller.signal }).then(
      () => null,
      error => error as unknown
    )
    if (outcome === null) {
      t.pass(`it was done before ${ms} ms`)
      break
    }
    t.equal(outcome, reason)
    t.strictSame(stage.state(), before)
  }
})

t.test('several concurrent extractions do not block the event loop', async t => {
  const directory = t.testdir()
  const stages = [0, 1, 2].map(i => {
    mkdirSync(join(directory, `${i}`))
    const stage = extractionStage(join(directory, `${i}`), `dep_${i}`)
    stage.put(makeZip(Array.from({ length: 200 }, (_, n) => ({ name: `f${n}`, data: `${i} ${n}`.repeat(300) }))))
    return stage
  })
  const delay = monitorEventLoopDelay({ resolution: 5 })
  delay.enable()
  await Promise.all(stages.map(stage => stage.runThreads()))
  delay.disable()
  t.comment(`event loop p99 ${(delay.percentile(99) / 1e6).toFixed(1)} ms`)
  stages.forEach(({ target }, i) => t.equal(readFileSync(join(target, 'f7'), 'utf8'), `${i} 7`.repeat(300)))
})

t.test('puts back an earlier extraction into the same target first', async t => {
  const stage = extractionStage(t.testdir())
  writeFileSync(join(stage.target, 'old'), 'old')
  mkdirSync(join(stage.target, '.svc-staging-dep_gone/files'), { recursive: true, mode: 0o700 })
  writeFileSync(join(stage.deployments, 'dep_gone.undo'), `svc-undo 1\ntarget ${stage.target}\n`)
  stage.put(makeZip([{ name: 'a', data: 'x' }]))
  await stage.runThreads()
  t.strictSame(readdirSync(stage.target), ['a', 'old'])
  t.strictSame(readdirSync(stage.deployments), ['dep_test.manifest'])
})

t.test('recovery continues after a missing target and an unreadable journal', async t => {
  const { deployments } = extractionStage(t.testdir())
  writeFileSync(join(deployments, 'dep_a.undo'), 'svc-undo 1\ntarget /nowhere/at/all\nready 0 0\n')
  writeFileSync(join(deployments, 'dep_b.undo'), 'svc-un')
  t.strictSame(await recoverTargets(createExecutors(), { home: { deployments } }), [])
  t.strictSame(readdirSync(deployments), ['dep_a.undo'], 'its disk may come back')
})

t.test('a missing archive is not a refusal', async t => {
  const { target, deployments, archivePath } = extractionStage(t.testdir())
  await t.rejects(
    extractArchive(createExecutors(), {
      archivePath,
      target,
      deployId: 'd',
      home: { deployments },
      limits: { maxEntries: 1, maxExtractedBytes: 1 },
      signal: new AbortController().signal
    }),
    { code: 'ENOENT' }
  )
})

t.test('the process can end after an extraction', async t => {
  const stage = extractionStage(t.testdir())
  stage.put(makeZip([{ name: 'a', data: 'x' }]))
  const program = fileURLToPath(new URL('../../support/killed-extraction.js', import.meta.url))
  execFileSync(process.execPath, [program, stage.archivePath, stage.target, stage.deployments, 'threads'], {
    timeout: 20_000
  })
  t.strictSame(readdirSync(stage.target), ['a'])
  rmSync(stage.target, { recursive: true })
})
