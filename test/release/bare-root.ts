import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'

const run = (program: string, ...words: string[]): string =>
  execFileSync(program, words, { encoding: 'utf8', env: { PATH: process.env['PATH'] } })

/** The contents of a root: programs with their libraries, and directories copied as they are. */
export interface BareRoot {
  root: string
  /** Path in the root → program of this machine. */
  programs: Record<string, string>
  /** Path in the root → directory of this machine. */
  directories: Record<string, string>
}

/**
 * Makes a root that is read-only but for its /tmp, as a small container has it. To be called in a mount namespace of
 * its own, as root.
 */
export function makeBareRoot({ root, programs, directories }: BareRoot): void {
  const place = (from: string, to: string): void => {
    mkdirSync(dirname(join(root, to)), { recursive: true })
    copyFileSync(from, join(root, to))
    chmodSync(join(root, to), 0o755)
  }
  const libraries = new Set<string>()
  for (const [to, program] of Object.entries(programs)) {
    const real = realpathSync(program)
    place(real, to)
    for (const [, path] of run('ldd', real).matchAll(/(\/\S+) \(/g)) libraries.add(path as string)
  }
  for (const library of libraries) place(library, library)
  for (const [to, directory] of Object.entries(directories)) {
    mkdirSync(dirname(join(root, to)), { recursive: true })
    run('cp', '-R', directory, join(root, to))
  }
  mkdirSync(join(root, 'tmp'))
  run('mount', '--bind', root, root)
  run('mount', '-o', 'remount,ro,bind', root)
  run('mount', '-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', join(root, 'tmp'))
}
