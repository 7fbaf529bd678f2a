/** One instruction of a Dockerfile: `RUN` and everything on its line and its continuation lines. */
export interface Instruction {
  name: string
  text: string
}

/** Removes comments and empty lines, joins continued lines, and inserts arguments (`ARG`). */
export function readDockerfile(text: string): Instruction[] {
  const lines = text
    .split('\n')
    .filter(line => !/^\s*(#|$)/.test(line))
    .join('\n')
    .replace(/\\\n/g, '')
    .split('\n')
  const args: Record<string, string> = {}
  return lines.map(line => {
    const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? []
    const [, arg, value] = name === 'ARG' ? (/^(\w+)=(.*)$/.exec(rest) ?? []) : []
    if (arg !== undefined) args[arg] = value as string
    return { name, text: name === 'FROM' ? rest.replace(/\$\{(\w+)\}/g, (_, arg: string) => args[arg] ?? '') : rest }
  })
}
