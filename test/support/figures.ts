/*
 * The size of the tree in figures that anyone can repeat (`make figures`): a row each, with what it counts. The last row
 * needs time and a quiet machine: it is `make bench BENCH=start`.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import ts from 'typescript'
import { loadedModules } from './loaded-modules.js'
import { startServeProcess } from './serve-process.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
/** A text that a project can have, and that a client can leave out. */
const optionalField = /\b(scriptDirectory|script_directory)\b/
const longFunction = 100

interface Source {
  path: string
  text: string
}

function sourcesOf(folder: string): Source[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter(path => /\.(ts|css|html)$/.test(path))
    .map(path => ({ path: join(folder, path), text: readFileSync(join(root, folder, path), 'utf8') }))
}

function linesOf(sources: readonly Source[]): number {
  return sources.reduce((sum, { text }) => sum + text.split('\n').length - 1, 0)
}

function sizeOf(sources: readonly Source[]): string {
  return `${linesOf(sources)} / ${sources.length}`
}

/** Returns the files about a noun, by their names, and those that import one of them. */
function filesAbout(noun: RegExp, sources: readonly Source[]): Source[] {
  const imports = new RegExp(`from '[^']*/(${noun.source})\\.js'`)
  const name = new RegExp(`^(${noun.source})\\.ts$`)
  return sources.filter(({ path, text }) => name.test(basename(path)) || imports.test(text))
}

/** Returns the places of functions that are longer than a screen or two. */
function longFunctions(sources: readonly Source[]): string[] {
  return sources.flatMap(({ path, text }) => {
    const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest)
    const places: string[] = []
    const lineOf = (position: number): number => file.getLineAndCharacterOfPosition(position).line
    const visit = (node: ts.Node): void => {
      const from = lineOf(node.getStart(file))
      if (ts.isFunctionLike(node) && lineOf(node.end) - from >= longFunction) places.push(`${path}:${from + 1}`)
      ts.forEachChild(node, visit)
    }
    visit(file)
    return places
  })
}

/**
 * A preloaded module that writes which files run between two signals. After the first it waits until two seconds have
 * passed in which no module was loaded: the doors of a server open on their own (`createDoor`), whatever is asked.
 */
const tracer = `
  import { Session } from 'node:inspector'
  import { writeFileSync } from 'node:fs'
  const session = new Session()
  session.connect()
  session.post('Profiler.enable')
  const isLoading = ({ functions: [{ functionName, ranges: [range] }] }) => functionName === '' && range.startOffset === 0
  const waitForDoors = () => setTimeout(() => session.post('Profiler.takePreciseCoverage', (_, { result }) => {
    if (result.some(isLoading)) waitForDoors()
    else console.log('begun')
  }), 2000)
  process.on('SIGUSR2', () => session.post('Profiler.startPreciseCoverage', { callCount: true }, waitForDoors))
  process.on('SIGHUP', () => session.post('Profiler.takePreciseCoverage', (_, { result }) => {
    const ran = result.filter(({ functions }) => functions.some(({ ranges }) => ranges[0].count > 0))
    writeFileSync(process.env.RAN, ran.map(({ url }) => url).join('\\n'))
    console.log('written')
  }))
`

type Cleanup = Array<() => unknown>

/** Returns the files of lib's services and mechanisms whose code runs in the server for one upload. */
async function filesOfAnUpload(t: Parameters<typeof loadedModules>[0], directory: string): Promise<string[]> {
  writeFileSync(join(directory, 'tracer.mjs'), tracer)
  const ran = join(directory, 'ran')
  const nodeWords = ['--import', pathToFileURL(join(directory, 'tracer.mjs')).href]
  const server = await startServeProcess(t, directory, [], { RAN: ran }, { nodeWords })
  const said = async (word: string, signal: NodeJS.Signals): Promise<void> => {
    process.kill(server.pid, signal)
    while (!server.said().includes(word)) await new Promise(resolve => setTimeout(resolve, 20))
  }
  const deployPath = join(directory, 'site')
  mkdirSync(deployPath)
  const project = await server.createProject({ name: 'site', deployPath })
  await said('begun', 'SIGUSR2')
  await (await server.upload(project, { 'index.html': 'hello' })).finished
  await said('written', 'SIGHUP')
  await server.stop()
  const lib = pathToFileURL(join(root, 'dist/lib/')).href
  return readFileSync(ran, 'utf8')
    .split('\n')
    .filter(url => url.startsWith(lib))
    .map(url => url.slice(lib.length))
    .filter(path => /^(api|deploy|core\/(install|archive)|http\/form)\//.test(path))
}

async function figures(): Promise<Array<[string, string | number]>> {
  const [lib, www, test] = [sourcesOf('lib'), sourcesOf('www'), sourcesOf('test')]
  const named = (sources: readonly Source[]): number => sources.filter(({ text }) => optionalField.test(text)).length
  const directory = mkdtempSync(join(tmpdir(), 'svc-figures-'))
  const cleanup: Cleanup = []
  let folders = 0
  const t = {
    teardown: (work: () => unknown) => void cleanup.push(work),
    testdir: (files: Record<string, string>) => {
      const folder = join(directory, String(folders++))
      mkdirSync(folder)
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
      return folder
    }
  } as unknown as Parameters<typeof loadedModules>[0]
  try {
    const upload = await filesOfAnUpload(t, t.testdir({}))
    const modules = await loadedModules(t)
    return [
      ['lib, lines / files', sizeOf(lib)],
      ['www, lines / files', sizeOf(www)],
      ['test, lines', linesOf(test)],
      ['files that name an optional text field of a project', `${named([...lib, ...www])} + ${named(test)} tests`],
      ['files about locks: modules of that name, and who imports them', filesAbout(/[a-z-]*\blocks?/, lib).length],
      ['functions over 100 lines in lib', longFunctions(lib).length],
      ['files that run for an upload, in api, http/form, deploy, core/install and core/archive', upload.length],
      ['modules that svc serve loads before it answers', modules.length]
    ]
  } finally {
    for (const work of cleanup) await work()
    rmSync(directory, { recursive: true, force: true })
  }
}

for (const [what, figure] of await figures()) console.log(`${String(figure).padStart(16)}  ${what}`)
const start = join(root, 'dist/test/bench/start.js')
await once(spawn(process.execPath, [start], { cwd: relative(process.cwd(), root) || '.', stdio: 'inherit' }), 'exit')
