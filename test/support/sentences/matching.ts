const special = /[.*+?^${}()|[\]\\/]/g

/** Returns an expression for parts that follow one another: texts literally, expressions as they are. */
export function matching(...parts: Array<string | RegExp>): RegExp {
  return new RegExp(
    parts.map(part => (typeof part === 'string' ? part.replace(special, '\\$&') : part.source)).join('')
  )
}
