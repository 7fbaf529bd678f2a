/*
 * Runs every test file that shortens itself in `make test` (support/thorough.ts) with all of its repetitions, once:
 * `node thorough.js`. It takes as long as it takes. Prints TAP.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const tests = fileURLToPath(new URL('..', import.meta.url))
const suite = fileURLToPath(new URL('../support/suite.js', import.meta.url))
const jobs = '2'

const texts = new Map(
  readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.js'))
    .map(name => [join(tests, name), readFileSync(join(tests, name), 'utf8')])
)
const shortened = [...texts].filter(([, text]) => text.includes('support/thorough.js')).map(([path]) => path)
/** Whether a file shortens itself, or a file beside it does so for several, like test/proxy/contract.ts. */
const isShortened = (path: string, text: string): boolean =>
  shortened.some(
    other => other === path || (dirname(other) === dirname(path) && text.includes(`'./${basename(other)}'`))
  )
const files = [...texts]
  .filter(([path, text]) => path.endsWith('.test.js') && isShortened(path, text))
  .map(([path]) => relative('.', path))
const child = spawn(process.execPath, [suite, jobs, ...files], {
  stdio: ['ignore', 'inherit', 'inherit'],
  env: { ...process.env, THOROUGH: '1' }
})
const [code] = (await once(child, 'exit')) as [number | null]
process.exitCode = code ?? 1
