import { execFile } from 'node:child_process'
import { access, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { isTiny } from './bench.js'

/** Loads one of the packages as `require` would: the default export if there is one. */
export type Load = <T>(name: string) => Promise<T>

const home = fileURLToPath(new URL('../../bench-rivals/', import.meta.url))
const installMs = 5 * 60 * 1000

/**
 * The tools a bench measures against: installed by npm into `dist/bench-rivals`, one folder for each set, never among
 * the project's own dependencies; installed once. Where npm cannot, says so and gives null, and the bench leaves them
 * out. Ask for each rival apart where one may be missing without the others.
 */
export async function rivals(versions: Record<string, string>): Promise<Load | null> {
  const folder = await installedFolder(versions)
  if (folder === null) return null
  // A module inside the folder, so that names resolve there.
  const { load } = (await import(pathToFileURL(join(folder, 'load.mjs')).href)) as {
    load: (name: string) => Promise<object>
  }
  return async <T>(name: string) => {
    const module = await load(name)
    return ('default' in module ? module.default : module) as T
  }
}

/**
 * Returns the folder whose `node_modules` contains these packages; null, with a message, if npm cannot install them.
 */
export async function installedFolder(versions: Record<string, string>): Promise<string | null> {
  const wanted = Object.entries(versions).map(([name, version]) => `${name}@${version}`)
  if (isTiny) {
    console.log(`${wanted.join(', ')}: left out at a tiny size`)
    return null
  }
  const folder = join(home, wanted.join('+').replaceAll('/', '-'))
  if (await isInstalled(folder, Object.keys(versions))) return folder
  try {
    await install(folder, versions)
    return folder
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    console.log(`${wanted.join(', ')}: npm could not install it (${firstLine(error)})`)
    return null
  }
}

async function isInstalled(folder: string, names: string[]): Promise<boolean> {
  try {
    await access(join(folder, 'load.mjs'))
    for (const name of names) JSON.parse(await readFile(join(folder, 'node_modules', name, 'package.json'), 'utf8'))
    return true
  } catch {
    return false
  }
}

async function install(folder: string, versions: Record<string, string>): Promise<void> {
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies: versions }))
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
  await promisify(execFile)(npm, ['install', '--no-audit', '--no-fund', '--no-package-lock'], {
    cwd: folder,
    timeout: installMs,
    shell: process.platform === 'win32'
  })
  // Written last: its presence says that the rest is complete.
  await writeFile(join(folder, 'load.mjs'), 'export const load = name => import(name)\n')
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return (
    text.split('\n').find(line => line.startsWith('npm error') || line.startsWith('npm ERR!')) ??
    text.split('\n')[0] ??
    ''
  )
}
