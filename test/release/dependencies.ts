import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The top of the checkout. */
export const top = fileURLToPath(new URL('../../../', import.meta.url))

/** A run-time package as it was audited. `audit.json` lists them, and a test compares it with the lock file. */
export interface Audited {
  name: string
  version: string
  licence: string
  /** The integrity of the registry's archive, as in the lock file. */
  integrity: string
  /** Whether svc runs without it. */
  isOptional: boolean
  /** The package that requires it; svc itself if it is direct. */
  neededBy: string
  /** The install script; empty if there is none. */
  installScripts: string[]
  /** What it may access, read from its sources by a person. */
  touches: string
}

export interface Locked {
  version: string
  integrity: string
  optional?: boolean
  dev?: boolean
  license?: string
  hasInstallScript?: boolean
  dependencies?: Record<string, string>
}

/** Returns the run-time packages of the lock file by name. */
export function lockedPackages(): Map<string, Locked> {
  const { packages } = JSON.parse(readFileSync(join(top, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>
  }
  const entries = Object.entries(packages).filter(([path, { dev }]) => path !== '' && dev !== true)
  return new Map(
    entries.map(([path, locked]) => [path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length), locked])
  )
}

export function auditedPackages(): Audited[] {
  return JSON.parse(readFileSync(join(top, 'test/release/audit.json'), 'utf8')) as Audited[]
}

/** Returns the installed description of a package and its size on disk. */
export function installedPackage(name: string) {
  const directory = join(top, 'node_modules', name)
  if (!existsSync(directory)) return null
  const description = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as {
    license: string
    scripts?: Record<string, string>
  }
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map(path => statSync(join(directory, path)))
    .filter(found => found.isFile())
  const { scripts = {} } = description
  return {
    licence: description.license,
    installScripts: ['preinstall', 'install', 'postinstall'].flatMap(name => scripts[name] ?? []),
    files: files.length,
    bytes: files.reduce((sum, { size }) => sum + size, 0)
  }
}
