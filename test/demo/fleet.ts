import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DemoStage, Run, Service } from './stage.js'

/* What the stages of the demo of a fleet share. */

/** The nodes of the demo. */
export const nodeNames = ['plant-1', 'plant-2', 'plant-3', 'plant-4', 'plant-5'] as const

/** A hub that runs. */
export interface Hub {
  service: Service
  url: string
  /** The environment of a command with the admin token. */
  admin: Record<string, string>
}

/** A hub with nodes and a project. */
export interface Fleet {
  hub: Hub
  agents: Map<string, Service>
  /** Runs `svc push` and others with the deploy token, in the directory of the project. */
  pusher: Run
}

/** Waits until the hub has heard of every node of the demo. */
export async function connected(stage: DemoStage, { admin }: Pick<Hub, 'admin'>): Promise<void> {
  for (;;) {
    const nodes = JSON.parse(await stage.svc(['fleet', 'nodes', '--json'], { env: admin, isQuiet: true })) as Array<{
      name: string
      isConnected: boolean
    }>
    const here = nodes.filter(({ isConnected }) => isConnected).map(({ name }) => name)
    if (nodeNames.every(name => here.includes(name))) return
  }
}

/** Prints what the page of each node says, and expects a text there. */
export function showPages(stage: DemoStage, expected: string | Record<string, string>): void {
  stage.print('')
  for (const name of nodeNames) {
    const page = join(stage.directory, name, 'www/index.html')
    const heading = existsSync(page) ? /<h1>(.*)<\/h1>/.exec(readFileSync(page, 'utf8'))?.[1] : 'no page'
    stage.print(`${name}: ${heading}`)
    expect(
      heading,
      typeof expected === 'string' ? expected : (expected[name] ?? expected['others']),
      `the page of ${name}`
    )
  }
}

/** Throws if a claim of the demo is not true. */
export function expect<T>(found: T, wanted: T, what: string): void {
  if (found !== wanted) throw new Error(`The demo expects ${what} to be "${wanted}", and it is "${found}"`)
}

/** Edits the page that is pushed. */
export function replaceInPage({ directory }: DemoStage, from: string, to: string): void {
  const page = join(directory, 'work/dist/index.html')
  writeFileSync(page, readFileSync(page, 'utf8').replaceAll(from, to))
}
