# shellcheck shell=bash
# bin/nvrar site: the documentation as a site of static files. Sourced by bin/nvrar.

SITE_REQUIREMENTS="$NVRAR_HOME/docs/site/requirements.txt"

site_usage() {
  cat << 'END'
bin/nvrar site [DIRECTORY]: builds the documentation and the Javadoc as a site of static files, by default in target/nvrar/site, and checks
its links.

MkDocs is installed into ~/.cache/nvrar once. The directory's contents are replaced. To look at the site, open its index.html by a web
server, for example `python3 -m http.server -d target/nvrar/site`.
END
}

# site [DIRECTORY]
site() {
  local environment javadoc="$NVRAR_HOME/ray-plugin/target/run/reports/apidocs"
  case "${1:-}" in
    -h | --help)
      site_usage
      return
      ;;
    -*)
      say "there is no option '$1'; bin/nvrar site takes a directory"
      exit 2
      ;;
  esac
  (($# < 2)) || { say 'bin/nvrar site takes one directory' && exit 2; }
  environment="$(requirements_environment site "$SITE_REQUIREMENTS")"
  once "$environment" install_requirements "$SITE_REQUIREMENTS" MkDocs --no-deps
  locked maven -pl ray-plugin javadoc:javadoc -Dnvrar.run -DskipTests -Djacoco.skip &&
    "${OWN_PYTHON[@]}" "$environment/bin/python" -I "$NVRAR_HOME/docs/site/build" "${1:-$NVRAR_STATE/site}" "$javadoc" &&
    say "the site is in ${1:-$NVRAR_STATE/site}; to look at it: python3 -m http.server -d '${1:-$NVRAR_STATE/site}', then http://localhost:8000"
}
