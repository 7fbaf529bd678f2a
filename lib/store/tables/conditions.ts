import type { Value } from '../database.js'

/** Conditions in SQL, and the values that they bind, in order. */
export interface Conditions {
  conditions: string[]
  values: Value[]
}

/** Returns an equality condition for each expression that has a value; undefined means any value. */
export function equalities(wanted: Record<string, string | undefined>): Conditions {
  const found: Conditions = { conditions: [], values: [] }
  for (const [expression, value] of Object.entries(wanted)) {
    if (value === undefined) continue
    found.conditions.push(`${expression} = ?`)
    found.values.push(value)
  }
  return found
}

/** Adds the condition that an expression is one of these ids; null or undefined means any value. */
export function among(to: Conditions, expression: string, ids: readonly string[] | null | undefined): Conditions {
  if (ids == null) return to
  to.conditions.push(`${expression} IN (SELECT value FROM json_each(?))`)
  to.values.push(JSON.stringify(ids))
  return to
}

/** Returns the WHERE clause of all conditions; empty if there are none. */
export function where(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
}
