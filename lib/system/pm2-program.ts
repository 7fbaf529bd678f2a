import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { inheritedEnvironment } from '../proc/environment.js'

export type Environment = Readonly<Record<string, string | undefined>>

const isWindows = process.platform === 'win32'

/** Where npm, and its kin, put programs when PATH does not say so: a service often has a bare one. */
export function commonPlaces(environment: Environment): string[] {
  const home = environment['HOME'] || homedir()
  const { NPM_CONFIG_PREFIX: prefix, NVM_BIN: nvm, PNPM_HOME: pnpm, APPDATA: appData } = environment
  const inHome = ['.npm-global/bin', '.local/bin', '.yarn/bin', '.bun/bin', '.volta/bin', '.local/share/pnpm', 'n/bin']
  return [
    dirname(process.execPath),
    ...(prefix ? [join(prefix, 'bin')] : []),
    ...[nvm, pnpm].filter((place): place is string => Boolean(place)),
    ...(isWindows && appData ? [join(appData, 'npm')] : []),
    '/usr/local/bin',
    '/usr/bin',
    '/opt/homebrew/bin',
    ...inHome.map(place => join(home, place))
  ]
}

/** The path of the pm2 program: on PATH, else in a common place; null where there is none. */
export async function findPm2(environment: Environment, places = commonPlaces(environment)): Promise<string | null> {
  const onPath = (environment['PATH'] ?? environment['Path'] ?? '').split(delimiter).filter(Boolean)
  for (const directory of [...onPath, ...places]) {
    const path = join(directory, isWindows ? 'pm2.cmd' : 'pm2')
    if (await isProgram(path)) return path
  }
  return null
}

/** A pm2 command as words to spawn; Windows runs a `.cmd` only through its shell. */
export function pm2Command(program: string, words: readonly string[]): string[] {
  if (!isWindows) return [program, ...words]
  return ['cmd', '/d', '/s', '/c', `"${[program, ...words].map(word => `"${word}"`).join(' ')}"`]
}

/**
 * What pm2 runs with: what any program inherits (its daemon, which it may start, keeps it, and passes it on to all that
 * it runs), and a PATH where its first line, `env node`, finds this Node.
 */
export function pm2Environment(environment: Environment): Environment {
  const path = [environment['PATH'] ?? environment['Path'], dirname(process.execPath)].filter(Boolean).join(delimiter)
  return { ...inheritedEnvironment(environment), PATH: path, NO_COLOR: '1' }
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}
