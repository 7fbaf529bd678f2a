import { execFile } from 'node:child_process'
import { access, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/*
 * Runtimes from the npm registry: packages that hold nothing but the program, for one system and processor. They are
 * unpacked, never installed, so nothing of theirs runs but the program itself, and kept outside the checkout: they are
 * some 100 MB each.
 */

export interface Fetched {
  version: string
  /** The path of the program. */
  path: string
}

const run = promisify(execFile)
const npmMs = 4 * 60 * 1000
const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'svc-runtimes')
const nodePackage = `node-${process.platform}-${process.arch}`
const bunPackage = `@oven/bun-${process.platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`

async function npm(words: string[]): Promise<string> {
  try {
    return (await run('npm', words, { timeout: npmMs, maxBuffer: 16 * 1024 * 1024 })).stdout
  } catch (cause) {
    const { stderr = '' } = cause as { stderr?: string }
    const lines = stderr.split('\n').filter(line => /^npm (error|ERR!)/.test(line) && !/complete log/.test(line))
    const why =
      lines
        .map(line => line.replace(/^npm (error|ERR!) */, ''))
        .slice(0, 3)
        .join(' ') || String((cause as Error).message)
    throw new Error(
      `The runtimes could not be fetched: the npm registry cannot be used ("npm ${words.join(' ')}": ${why})`,
      { cause }
    )
  }
}

/** Returns the newest version of each major version in `majors`, and the newest of all, in ascending order. */
export async function nodeVersions(majors: readonly number[]): Promise<string[]> {
  const all = JSON.parse(await npm(['view', nodePackage, 'versions', '--json'])) as string[]
  const released = all.filter(version => /^\d+\.\d+\.\d+$/.test(version)).sort(byVersion)
  const newestOf = (fits: (version: string) => boolean): string[] => released.filter(fits).slice(-1)
  const wanted = [
    ...majors.flatMap(major => newestOf(version => version.startsWith(`${major}.`))),
    ...newestOf(() => true)
  ]
  return [...new Set(wanted)]
}

function byVersion(a: string, b: string): number {
  const [left, right] = [a.split('.').map(Number), b.split('.').map(Number)]
  return left.map((part, at) => part - (right[at] as number)).find(difference => difference !== 0) ?? 0
}

export async function newestBun(): Promise<string> {
  return JSON.parse(await npm(['view', bunPackage, 'version', '--json'])) as string
}

export const fetchNode = (version: string): Promise<Fetched> => fetchProgram(nodePackage, version, 'bin/node')
export const fetchBun = (version: string): Promise<Fetched> => fetchProgram(bunPackage, version, 'bin/bun')

async function fetchProgram(name: string, version: string, program: string): Promise<Fetched> {
  const folder = join(cache, `${name.replace('/', '-')}-${version}`)
  const path = join(folder, program)
  const isThere = await access(path).then(
    () => true,
    () => false
  )
  if (isThere) return { version, path }
  await mkdir(cache, { recursive: true })
  const directory = await mkdtemp(join(cache, 'fetching-'))
  try {
    const [packed] = JSON.parse(
      await npm(['pack', '--json', '--pack-destination', directory, `${name}@${version}`])
    ) as Array<{ filename: string }>
    // What npm names and what it writes differ for scoped packages in some of its versions.
    const archive = join(directory, (packed?.filename ?? '').replace('@', '').replace('/', '-'))
    await run('tar', ['xzf', archive, '-C', directory, 'package/bin', 'package/package.json'])
    // Only a complete one gets the name; another run may have been faster.
    await rename(join(directory, 'package'), folder).catch(() => access(path))
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
  return { version, path }
}
