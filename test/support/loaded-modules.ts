import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import { startServeProcess, type ServeProcess } from './serve-process.js'

/** A loader of Node that writes down what it loads, from its start to its first request. */
const loader = `
  import { appendFileSync } from 'node:fs'
  let list = ''
  export const initialize = data => { list = data.list }
  export const load = (url, context, next) => { appendFileSync(list, url + '\\n'); return next(url, context) }
`

/** Returns the addresses of the modules that \`svc serve\` has loaded when it has answered a request. */
export async function loadedModules(
  t: Pick<Test, 'testdir' | 'teardown'>,
  use: (server: ServeProcess) => Promise<unknown> = () => Promise.resolve()
): Promise<string[]> {
  const directory = t.testdir({ 'loader.mjs': loader })
  const list = join(directory, 'modules.txt')
  writeFileSync(list, '')
  const hook = join(directory, 'hook.mjs')
  const { href } = pathToFileURL(join(directory, 'loader.mjs'))
  writeFileSync(
    hook,
    `import { register } from 'node:module'; register('${href}', { data: ${JSON.stringify({ list })} })`
  )
  const server = await startServeProcess(t, directory, [], {}, { nodeWords: ['--import', pathToFileURL(hook).href] })
  await server.api('GET', '/api/health')
  await use(server)
  await server.stop()
  return readFileSync(list, 'utf8').trim().split('\n')
}
