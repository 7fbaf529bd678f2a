import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** A compiled program of a newer version. */
export interface NewerSvc {
  /** Its directory of modules. */
  lib: string
  /** Its launcher. */
  program: string
}

/** Copies this program to a directory, with more migrations than this one has. Each reads rows and writes others. */
export function newerSvc(directory: string, migrations = 1): NewerSvc {
  const copy = join(directory, `newer-${migrations}`)
  const lib = join(copy, 'dist', 'lib')
  mkdirSync(copy)
  for (const name of ['bin', 'package.json', join('dist', 'lib')]) {
    cpSync(join(root, name), join(copy, name), { recursive: true })
  }
  for (const name of ['node_modules', join('dist', 'www')]) symlinkSync(join(root, name), join(copy, name))
  const path = join(lib, 'core/store/schema.js')
  const text = readFileSync(path, 'utf8')
  const line = 'export const schemaVersion ='
  if (!text.includes(line)) throw new Error('the schema looks different')
  const added = Array.from({ length: migrations }, (_, at) => {
    const table = `newer${at}`
    const sql = `CREATE TABLE ${table} (key TEXT NOT NULL, length INTEGER NOT NULL); INSERT INTO ${table} SELECT key, length(value) FROM settings`
    return `migrations.push({ what: 'a test', sql: ${JSON.stringify(sql)} });\n`
  })
  writeFileSync(path, text.replace(line, `${added.join('')}${line}`))
  return { lib, program: join(copy, 'bin', 'svc.js') }
}
