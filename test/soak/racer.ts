/*
 * A user who owns the targets races against svc, which runs as root: `node racer.js [seconds] [seed]`.
 *
 * Two processes of user 65534 rename, replace and link every name that they see in a target: its directories, its
 * files, `.svc-staging-*`, and the target itself. What they plant are links to decoys outside, directories with such
 * links in them, and pipes. Meanwhile archives are extracted, some are cancelled, some processes are killed and their
 * targets recovered; targets are listed, read, packed and measured. In the end every decoy must be as it was: its
 * bytes, mode, owner, inode and time. Nothing of a decoy's contents may be seen through a target, and nothing may be
 * blocked.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inflateRawSync } from 'node:zlib'
import { Refusal } from '../../lib/base/errors.js'
import { extractArchive, recoverTargets } from '../../lib/core/install/unpack/extract.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { listDirectory, measureTree, openFile, readPreview } from '../../lib/core/install/browse.js'
import { ensureTarget } from '../../lib/core/install/guard.js'
import { packTarget, writeToFile } from '../../lib/carry/transfer/pack-target.js'
import { makeZip, type EntryPlan } from '../support/make-zip.js'
import { createRandom, type Random } from '../support/random.js'
import { snapshot } from '../support/tree.js'

const racingUser = 65534
const secret = 'decoy contents that no one may see'
/** Time that nothing takes unless it is blocked. */
const blockedMs = 60_000
const roundsOfTarget = 12

const seconds = Number(process.argv[2] ?? 1800)
const seed = Number(process.argv[3] ?? 1)
const program = fileURLToPath(import.meta.url)

/** Names that archives, targets and decoys share, so that each link leads to something of the same shape. */
const folders = ['app', 'app/deep', 'files', 'files/app', 'aside', 'fresh', 'fresh/er']
const names = ['index.html', 'a.js', 'b.js', '0', '1', '2', '3', '4', '5']

interface Stage {
  base: string
  theirs: string
  decoys: string
  home: string
  deployments: string
}

function prepare(): Stage {
  const base = mkdtempSync(join(realpathSync(tmpdir()), 'svc-racer-'))
  chmodSync(base, 0o755)
  const at = (name: string): string => join(base, name)
  const stage = {
    base,
    theirs: at('theirs'),
    decoys: at('decoys'),
    home: at('home'),
    deployments: at('home/deployments')
  }
  mkdirSync(stage.theirs)
  chownSync(stage.theirs, racingUser, racingUser)
  mkdirSync(stage.deployments, { recursive: true, mode: 0o700 })
  chmodSync(stage.home, 0o700)
  for (const folder of ['', ...folders]) {
    mkdirSync(join(stage.decoys, folder), { recursive: true })
    for (const name of names) writeFileSync(join(stage.decoys, folder, name), `${secret}: ${folder}/${name}`)
  }
  return stage
}

function stateOf({ decoys }: Stage): string[] {
  const paths = readdirSync(decoys, { recursive: true }).map(String).sort()
  const facts = ['', ...paths].map(path => {
    const { ino, uid, mtimeMs, nlink } = lstatSync(join(decoys, path))
    return `${path} ${ino} ${uid} ${mtimeMs} ${nlink}`
  })
  return [...snapshot(decoys), ...facts]
}

function writeArchives({ home }: Stage, random: Random): string[] {
  return Array.from({ length: 6 }, (_, at) => {
    const entries: EntryPlan[] = []
    for (const folder of ['', ...folders]) {
      if (folder !== '' && random.below(4) === 0)
        entries.push({ name: `${folder}/`, mode: 0o040000 | random.oneOf([0o755, 0o777, 0o750]) })
      for (const name of names) {
        if (random.below(3) > 0)
          entries.push({
            name: join(folder, name),
            data: random.oneOf(['same', `content ${at}`]),
            mode: random.oneOf([0o100644, 0o100666])
          })
      }
    }
    for (let i = 0; i < 40; i++)
      entries.push({ name: `many${at % 2}/d${i % 8}/f${i}`, data: 'many '.repeat(50), method: 8 })
    const path = join(home, `archive${at}.zip`)
    writeFileSync(path, makeZip(entries))
    return path
  })
}

const limits = { maxEntries: 10_000, maxExtractedBytes: 1e9 }

/** Starts a process that extracts and will be killed. */
async function extractOnce([archivePath, target, deployId, home]: [string, string, string, string]): Promise<void> {
  await ensureTarget(target, { home })
  await extractArchive(createExecutors(), {
    archivePath,
    target,
    deployId,
    home: { deployments: join(home, 'deployments') },
    limits,
    signal: new AbortController().signal
  })
}

interface Counts {
  [what: string]: number
}

async function main(): Promise<number> {
  if (process.geteuid?.() !== 0) {
    console.log('racer: left out, because only root can run a process of another user')
    return 0
  }
  const stage = prepare()
  const random = createRandom(seed)
  const before = stateOf(stage)
  const counts: Counts = {}
  const racers: ChildProcess[] = []
  let complaints: string[] = []
  try {
    for (const at of [0, 1]) racers.push(startRacer(stage, seed * 10 + at))
    complaints = await race(stage, random, counts)
  } finally {
    for (const racer of racers) {
      if (racer.exitCode !== null || racer.signalCode !== null) complaints.push('a racing process ended early')
      else {
        racer.kill('SIGKILL')
        await once(racer, 'exit')
      }
    }
  }
  const after = stateOf(stage)
  const changes = [
    ...before.filter(line => !after.includes(line)).map(line => `- ${line}`),
    ...after.filter(line => !before.includes(line)).map(line => `+ ${line}`)
  ]
  const moves = readFileSync(join(stage.theirs, 'moves'), 'utf8').trim().split('\n').length * 1000
  console.log(`racer: ${seconds} s, seed ${seed}, about ${moves} moves of the racing user`)
  for (const [what, count] of Object.entries(counts).sort((a, b) => b[1] - a[1]))
    console.log(`  ${String(count).padStart(7)}  ${what}`)
  console.log(`changes outside the targets: ${changes.length}`)
  for (const line of [...complaints, ...changes.slice(0, 40)]) console.log(`  ${line}`)
  rmSync(stage.base, { recursive: true, force: true })
  return changes.length === 0 && complaints.length === 0 ? 0 : 1
}

function startRacer({ theirs, decoys }: Stage, seed: number): ChildProcess {
  return spawn(process.execPath, [program, 'race', theirs, decoys, String(seed)], {
    stdio: ['ignore', 'inherit', 'inherit'],
    cwd: '/',
    env: { NODE_V8_COVERAGE: '' }
  })
}

async function race(stage: Stage, random: Random, counts: Counts): Promise<string[]> {
  const { theirs, home, deployments } = stage
  const archives = writeArchives(stage, random)
  const threads = createExecutors()
  const complaints: string[] = []
  const count = (what: string): void => {
    counts[what] = (counts[what] ?? 0) + 1
  }
  const deadline = Date.now() + seconds * 1000
  let target = ''

  async function attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    const watch = setTimeout(() => complaints.push(`${what} was blocked`), blockedMs)
    try {
      await work()
      count(`${what}: done`)
    } catch (error) {
      // Messages differ in their file names; count them without.
      count(`${what}: ${error instanceof Refusal ? error.code : String(error).replace(/["'/][^ ]*/g, '…')}`)
    } finally {
      clearTimeout(watch)
    }
  }

  const extract = (archivePath: string, deployId: string, signal: AbortSignal) => async (): Promise<void> => {
    await ensureTarget(target, { home })
    await extractArchive(threads, { archivePath, target, deployId, home: { deployments }, limits, signal })
  }

  async function killOne(archive: string, deployId: string): Promise<void> {
    const child = spawn(process.execPath, [program, 'extract', archive, target, deployId, home], { stdio: 'ignore' })
    const exit = once(child, 'exit')
    setTimeout(() => child.kill('SIGKILL'), 150 + random.below(250))
    await exit
    const problems: unknown[] = []
    await recoverTargets(threads, { home: { deployments }, onProblem: (_id, error) => problems.push(error) })
    if (problems.length > 0) throw problems[0]
  }

  for (let round = 0; Date.now() < deadline && complaints.length === 0; round++) {
    if (round % roundsOfTarget === 0) {
      target = join(theirs, `t${round / roundsOfTarget}`)
      spawnSync('mkdir', ['-p', ...folders.map(folder => join(target, folder))], { uid: racingUser, gid: racingUser })
    }
    const archive = random.oneOf(archives)
    const deployId = `dep_${round}`
    const choice = random.below(10)
    if (choice === 0) {
      await attempt('killed and recovered', () => killOne(archive, deployId))
    } else if (choice === 1) {
      const controller = new AbortController()
      setTimeout(() => controller.abort(new Error('cancelled')), random.below(60))
      await attempt('deployment with cancel', extract(archive, deployId, controller.signal))
    } else {
      await attempt('deployment', extract(archive, deployId, new AbortController().signal))
    }
    if (round % 3 === 0) await look(target, round)
  }
  await threads.close()
  return complaints

  /** Reads of svc in a target; none may return contents of a decoy. */
  async function look(target: string, round: number): Promise<void> {
    const folder = random.oneOf(['', ...folders])
    await attempt('listing', () => listDirectory(target, folder))
    await attempt('preview', async () => {
      const content = await readPreview(await openFile(target, join(folder, random.oneOf(names))))
      if (JSON.stringify(content).includes(secret)) complaints.push('a preview shows a decoy')
    })
    await attempt('measuring', () => measureTree(target, { maxEntries: 20_000, deadlineMs: performance.now() + 2000 }))
    const path = join(home, `packed${round}.zip`)
    await attempt('packing', async () => {
      const { note } = await packTarget({ target, ignore: [], ignoreBuiltin: false }, sources =>
        writeToFile(path, sources, undefined)
      )
      if (note !== null) count('packing: with a note')
    })
    if (holdsSecret(path)) complaints.push('a package contains a decoy')
    rmSync(path, { force: true })
  }
}

/** Whether an archive contains the contents of a decoy, stored or deflated. */
function holdsSecret(path: string): boolean {
  let bytes: Buffer
  try {
    bytes = readFileSync(path)
  } catch {
    return false
  }
  if (bytes.includes(secret)) return true
  for (
    let at = bytes.indexOf('PK\x03\x04', 0, 'latin1');
    at !== -1;
    at = bytes.indexOf('PK\x03\x04', at + 4, 'latin1')
  ) {
    const start = at + 30 + bytes.readUInt16LE(at + 26) + bytes.readUInt16LE(at + 28)
    try {
      if (
        bytes.readUInt16LE(at + 8) === 8 &&
        inflateRawSync(bytes.subarray(start), { finishFlush: 2 }).includes(secret)
      )
        return true
    } catch {
      // What follows the entry is no part of it.
    }
  }
  return false
}

const [mode, ...rest] = process.argv.slice(2)
if (mode === 'race') {
  const { runRacer } = await import('../support/racing-user.js')
  // Only now: the checkout may lie where that user may not go.
  process.setgroups?.([])
  process.setgid?.(racingUser)
  process.setuid?.(racingUser)
  runRacer(rest as [string, string, string])
} else if (mode === 'extract') {
  await extractOnce(rest as [string, string, string, string])
} else {
  process.exit(await main())
}
