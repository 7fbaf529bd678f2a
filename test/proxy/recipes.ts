import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * The configurations that documents recommend, as they stand there: what is tested is what is printed. Names and places
 * are filled in, nothing else.
 */
const top = fileURLToPath(new URL('../../../', import.meta.url))

/** Returns the only block of a document that contains these words. */
export function recipe(language: 'nginx' | 'caddy', words: string, document = 'docs/proxies.md'): string {
  const blocks = [...textOf(document).matchAll(/^ *```(\w+)\n([^]*?)^ *```/gm)].filter(([, name]) => name === language)
  const found = blocks.filter(([, , text]) => text?.includes(words))
  if (found.length !== 1) throw new Error(`${document} has ${found.length} blocks of ${language} with "${words}"`)
  return found[0]?.[2] as string
}

function textOf(document: string): string {
  return readFileSync(join(top, document), 'utf8')
}

/** Returns the only text between backquotes that contains these words. */
export function phrase(words: string, document = 'docs/proxies.md'): string {
  const found = [...textOf(document).matchAll(/`([^`\n]+)`/g)]
    .map(([, text]) => text as string)
    .filter(text => text.includes(words))
  if (found.length !== 1) throw new Error(`${document} says ${found.length} times "${words}"`)
  return found[0] as string
}

/** Puts each of the values in the place of what the recipe has there, once. */
export function filled(text: string, values: ReadonlyArray<readonly [there: string, here: string]>): string {
  return values.reduce((text, [there, here]) => {
    if (text.split(there).length !== 2) throw new Error(`The recipe has "${there}" not once:\n${text}`)
    return text.replace(there, () => here)
  }, text)
}

/** The lines of the first `name {` up to its closing brace, which stands where the line of `name` begins. */
export function bodyOf(text: string, name: string): string {
  const [, body] = new RegExp(`^( *)${name} \\{\\n([^]*?)^\\1\\}`, 'm').exec(text)?.slice(1) ?? []
  if (body === undefined) throw new Error(`The recipe has no ${name}:\n${text}`)
  return body
}
