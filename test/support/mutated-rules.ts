import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Rules } from './fleet-simulation.js'

const room = new URL('../../lib/fleet/', import.meta.url)

/** A change of the compiled rules that makes them wrong. */
export interface RuleMutation {
  what: string
  module: 'machine' | 'duty'
  /** The text occurs once in the module. */
  text: string
  replacement: string
}

/** Loads the rules with one change, from a copy in a directory. */
export async function mutatedRules(directory: string, mutation: RuleMutation): Promise<Rules> {
  const load = async <T>(module: 'machine' | 'duty'): Promise<T> => {
    const source = readFileSync(new URL(`${module}.js`, room), 'utf8')
    const isChanged = module === mutation.module
    const parts = source.split(mutation.text)
    if (isChanged && parts.length !== 2) throw new Error(`"${mutation.text}" is there ${parts.length - 1} times`)
    const text = isChanged ? parts.join(mutation.replacement) : source
    const file = join(directory, `${module}.mjs`)
    writeFileSync(
      file,
      text.replaceAll(/from '(\.[^']+)'/g, (_, path: string) => `from '${new URL(path, room).href}'`)
    )
    return (await import(pathToFileURL(file).href)) as T
  }
  const { Machine } = await load<Pick<Rules, 'Machine'>>('machine')
  return { Machine, duty: await load('duty') }
}
