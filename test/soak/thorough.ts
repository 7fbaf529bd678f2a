/*
 * Runs every test file that shortens itself in `make test` (support/thorough.ts) with all of its repetitions, once:
 * `node thorough.js`. It takes as long as it takes. THOROUGH_SHARE=2/4 runs the second quarter of them. Prints TAP.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const tests = fileURLToPath(new URL('..', import.meta.url))
const suite = fileURLToPath(new URL('../support/suite.js', import.meta.url))
const jobs = '2'
const [share, shares] = shareOf(process.env['THOROUGH_SHARE'] ?? '1/1')

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
  .sort()
  .filter((_, index) => index % shares === share - 1)
const child = spawn(process.execPath, [suite, jobs, ...files], {
  stdio: ['ignore', 'inherit', 'inherit'],
  env: { ...process.env, THOROUGH: '1' }
})
const [code] = (await once(child, 'exit')) as [number | null]
process.exitCode = code ?? 1

function shareOf(text: string): [share: number, shares: number] {
  const [share, shares] = (/^([1-9]\d*)\/([1-9]\d*)$/.exec(text)?.slice(1) ?? []).map(Number)
  if (share === undefined || shares === undefined || share > shares)
    throw new Error(`THOROUGH_SHARE is "${text}": a share is wanted, like 2/4`)
  return [share, shares]
}
