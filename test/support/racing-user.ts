/*
 * What the racing user of soak/racer does, as fast as it can: it looks for directories and files in its newest target,
 * and exchanges them for links to decoys, for directories with such links in them, or for pipes; some it puts back.
 */
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync
} from 'node:fs'
import { join } from 'node:path'
import { createRandom } from './random.js'

const stagingPrefix = '.svc-staging-'

/** Never returns; the parent kills it. */
export function runRacer([theirs, decoys, seed]: [string, string, string]): void {
  const random = createRandom(Number(seed))
  const pipe = join(theirs, `pipe${seed}`)
  try {
    execFileSync('mkfifo', [pipe])
  } catch {
    // Then there is one.
  }
  const inner = ['', 'app', 'app/deep', 'files', 'files/app', 'aside', 'fresh', 'fresh/er']
  let count = 0

  const tries = (work: () => void): void => {
    try {
      work()
    } catch {
      // The other one was quicker, or svc was, or it is not permitted.
    }
  }

  /** Returns something to put in the place of a directory. */
  function plantDirectory(place: string): void {
    switch (random.below(5)) {
      case 0:
        return symlinkSync(join(decoys, random.oneOf(inner)), place)
      case 1:
        mkdirSync(place, 0o777)
        for (const name of ['files', 'aside', 'app', 'deep'])
          symlinkSync(join(decoys, random.oneOf(inner)), join(place, name))
        return
      case 2:
        mkdirSync(place, 0o700)
        return symlinkSync(join(decoys, 'files'), join(place, 'files'))
      case 3:
        return linkSync(pipe, place)
      default:
        return symlinkSync(decoys, place)
    }
  }

  function plantFile(place: string): void {
    switch (random.below(4)) {
      case 0:
        return symlinkSync(join(decoys, random.oneOf(inner), 'a.js'), place)
      case 1:
        return linkSync(pipe, place)
      case 2:
        return mkdirSync(place)
      default:
        return linkSync(join(decoys, 'a.js'), place)
    }
  }

  function exchange(place: string): void {
    const away = `${place}~${random.below(3)}`
    let isDirectory = false
    tries(() => {
      isDirectory = lstatSync(place).isDirectory()
    })
    tries(() => renameSync(place, away))
    tries(() => (isDirectory ? plantDirectory(place) : plantFile(place)))
    if (random.below(3) > 0) tries(() => putBack(place, away))
  }

  function putBack(place: string, away: string): void {
    for (let wait = random.below(40); wait > 0; wait--) tries(() => lstatSync(place))
    rmSync(place, { recursive: true, force: true })
    renameSync(away, place)
  }

  /** Names that a deployment to come will use. */
  function plantAhead(target: string, names: readonly string[]): void {
    const last = names
      .filter(name => name.startsWith(stagingPrefix))
      .map(name => Number(/dep_(\d+)/.exec(name)?.[1] ?? 0))
    const next = join(target, `${stagingPrefix}dep_${Math.max(0, ...last) + 1 + random.below(2)}`)
    plantDirectory(next)
  }

  function visit(directory: string, depth: number): void {
    const names = readdirSync(directory)
    const staging = names.find(name => name.startsWith(stagingPrefix) && !name.includes('~'))
    if (staging !== undefined && random.below(3) === 0) return exchange(join(directory, staging))
    if (names.length === 0) return
    const name = random.oneOf(names)
    if (random.below(100) === 0) tries(() => plantAhead(directory, names))
    if (name.includes('~') && random.below(4) === 0)
      return rmSync(join(directory, name), { recursive: true, force: true })
    if (depth < 3 && random.below(3) > 0) tries(() => visit(join(directory, name), depth + 1))
    else exchange(join(directory, name))
    if (random.below(20) === 0) tries(() => chmodSync(directory, random.oneOf([0o755, 0o777, 0o755])))
  }

  function newestTarget(): string | undefined {
    const numbers = readdirSync(theirs)
      .map(name => /^t(\d+)$/.exec(name)?.[1])
      .filter(found => found !== undefined)
      .map(Number)
    return numbers.length === 0 ? undefined : `t${Math.max(...numbers)}`
  }

  for (;;) {
    const name = newestTarget()
    // Most time is left to deployments that come far; in between all is exchanged at once.
    const burst = random.below(400)
    for (let i = 0; name !== undefined && i < burst; i++) {
      const target = join(theirs, name)
      if (random.below(200) === 0) exchange(target)
      else tries(() => visit(target, 0))
      if (++count % 1000 === 0) appendFileSync(join(theirs, 'moves'), '1000\n')
    }
    tries(() => {
      if (name !== undefined && lstatSync(join(theirs, name)).isSymbolicLink()) unlinkSync(join(theirs, name))
    })
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, random.below(60))
  }
}
