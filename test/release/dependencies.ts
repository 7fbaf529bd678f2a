import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The top of the checkout. */
export const top = fileURLToPath(new URL('../../../', import.meta.url))

/** A package of run time as it was audited: `audit.json` holds them, and a test compares it with the lock file. */
export interface Audited {
  name: string
  version: string
  licence: string
  /** Of the registry's archive, as in the lock file. */
  integrity: string
  /** Whether svc runs without it. */
  isOptional: boolean
  /** Which package of ours asks for it; svc itself where it is direct. */
  neededBy: string
  /** What runs when it is installed; empty: nothing. */
  installScripts: string[]
  /** What it may touch, read from its sources by a person. */
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

/** The packages of run time in the lock file, by name. */
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

/** What is installed of a package: the description it brings, and what it takes on the disk. */
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
