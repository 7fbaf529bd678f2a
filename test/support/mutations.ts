import ts from 'typescript'

/** One change of a condition, in the text of a compiled module. */
export interface Mutation {
  start: number
  end: number
  /** The original text and its replacement. */
  text: string
  replacement: string
}

/** The replacements of comparisons and connectives: the bound moves by one, or the result is inverted. */
const others: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '&&': '||',
  '||': '&&'
}

/** A difference of one in a clock reading cannot be seen. */
const ofTime = /now\(|Ms\b|\bms\b/

/** Conditions of other systems, which are never true where the tests run. */
const ofOtherSystems = /isWindows|win32|darwin/

/** Returns every possible change of a condition in a module, in order of its text. */
export function findMutations(source: string): Mutation[] {
  const file = ts.createSourceFile('module.js', source, ts.ScriptTarget.ES2022, false, ts.ScriptKind.JS)
  const found: Mutation[] = []
  const add = (start: number, end: number, change: (text: string) => string): void => {
    const text = source.slice(start, end)
    found.push({ start, end, text, replacement: change(text) })
  }
  const visit = (node: ts.Node): void => {
    if (isExpression(node) && ofOtherSystems.test(node.getText(file))) return
    const condition = conditionOf(node)
    if (condition !== null && !ofOtherSystems.test(condition.getText(file)))
      add(condition.getStart(file), condition.end, text => `!(${text})`)
    if (ts.isBinaryExpression(node)) {
      const other = others[node.operatorToken.getText(file)]
      const isSeen = !/[<>]/.test(other ?? '') || !ofTime.test(source.slice(node.getStart(file), node.end))
      if (other !== undefined && isSeen) add(node.getStart(file), node.end, text => replaceAt(text, node, other, file))
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

function isExpression(node: ts.Node): boolean {
  return ts.isBinaryExpression(node) || ts.isConditionalExpression(node)
}

function conditionOf(node: ts.Node): ts.Expression | null {
  if (ts.isIfStatement(node) || ts.isWhileStatement(node) || ts.isDoStatement(node)) return node.expression
  return ts.isConditionalExpression(node) ? node.condition : null
}

/** Adds brackets: `a || b && c` is not `(a && b) && c`. */
function replaceAt(text: string, node: ts.BinaryExpression, other: string, file: ts.SourceFile): string {
  const begin = node.getStart(file)
  const { operatorToken } = node
  return `(${text.slice(0, operatorToken.getStart(file) - begin)}${other}${text.slice(operatorToken.end - begin)})`
}

/** Returns the module with one change. */
export function mutated(source: string, { start, end, replacement }: Mutation): string {
  return source.slice(0, start) + replacement + source.slice(end)
}
