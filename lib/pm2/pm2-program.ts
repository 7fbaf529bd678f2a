import { userHome } from '../base/runtime.js'
import { delimiter, dirname, join } from 'node:path'
import { isProgram } from '../base/files.js'
import { inheritedEnvironment } from '../proc/environment.js'

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

const isWindows = process.platform === 'win32'

/** Returns the directories in which npm, pnpm and others install programs. The PATH of a service is often minimal. */
export function commonPlaces(environment: Environment): string[] {
  const home = environment['HOME'] || userHome()
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

/** Returns the path of the pm2 program, from PATH or a common directory, or null if there is none. */
export async function findPm2(environment: Environment, places = commonPlaces(environment)): Promise<string | null> {
  const onPath = (environment['PATH'] ?? environment['Path'] ?? '').split(delimiter).filter(Boolean)
  for (const directory of [...onPath, ...places]) {
    const path = join(directory, isWindows ? 'pm2.cmd' : 'pm2')
    if (await isProgram(path)) return path
  }
  return null
}

/** Returns the socket, or the Windows pipe, on which the daemon of PM2 listens. */
export function daemonSocket(environment: Environment): string {
  if (isWindows) return '\\\\.\\pipe\\rpc.sock'
  return join(environment['PM2_HOME'] || join(environment['HOME'] || userHome(), '.pm2'), 'rpc.sock')
}

/** Returns the words that start a pm2 command. Windows runs a `.cmd` file only through its shell. */
export function pm2Command(program: string, words: readonly string[]): string[] {
  if (!isWindows) return [program, ...words]
  return ['cmd', '/d', '/s', '/c', `"${[program, ...words].map(word => `"${word}"`).join(' ')}"`]
}

/**
 * Returns the environment of pm2: what every program inherits, and a PATH on which its first line, `env node`, finds
 * this Node. The daemon that pm2 may start keeps this environment and passes it to all its processes.
 */
export function pm2Environment(environment: Environment): Environment {
  const path = [environment['PATH'] ?? environment['Path'], dirname(process.execPath)].filter(Boolean).join(delimiter)
  return { ...inheritedEnvironment(environment), PATH: path, NO_COLOR: '1' }
}
